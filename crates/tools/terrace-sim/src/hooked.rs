//! A disk that tells a hook of its calls before it makes them.

use std::io;
use std::sync::Arc;

use terrace_base::disk::{Disk, DiskFile, DiskRead};

/// A call that is about to be made, with the name of its file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call<'a> {
    /// [`Disk::create`] or [`Disk::create_buffered`].
    Create(&'a str),
    /// [`Disk::delete`].
    Delete(&'a str),
    /// [`Disk::reuse_buffered`]: the old name and the new one.
    Reuse(&'a str, &'a str),
    /// [`DiskFile::read_at`].
    Read(&'a str),
    /// [`DiskFile::read_together`]: how many reads; each of them comes as [`Call::Read`] too.
    ReadTogether(&'a str, usize),
    /// [`DiskFile::write_at`].
    Write(&'a str),
    /// [`DiskFile::sync`].
    Sync(&'a str),
    /// [`DiskFile::write_back`]: from, to.
    WriteBack(&'a str, u64, u64),
}

type Hook = Arc<dyn Fn(Call<'_>) + Send + Sync>;

/// A disk that tells a hook of its calls. What the hook is not told of goes to the disk below all
/// the same.
#[derive(Clone)]
pub struct HookedDisk {
    disk: Arc<dyn Disk>,
    hook: Hook,
}

struct HookedFile {
    file: Arc<dyn DiskFile>,
    name: String,
    hook: Hook,
}

impl HookedDisk {
    /// A disk that calls `hook`, on the thread that makes the call and while it holds what it holds.
    pub fn new(disk: Arc<dyn Disk>, hook: impl Fn(Call<'_>) + Send + Sync + 'static) -> HookedDisk {
        HookedDisk {
            disk,
            hook: Arc::new(hook),
        }
    }

    fn file(&self, name: &str, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(HookedFile {
            file,
            name: name.to_owned(),
            hook: self.hook.clone(),
        })
    }
}

impl Disk for HookedDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(name, self.disk.open(name)?))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        (self.hook)(Call::Create(name));
        Ok(self.file(name, self.disk.create(name)?))
    }
    fn open_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(name, self.disk.open_buffered(name)?))
    }
    fn create_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        (self.hook)(Call::Create(name));
        Ok(self.file(name, self.disk.create_buffered(name)?))
    }
    fn reuse_buffered(&self, old: &str, new: &str, len: u64) -> io::Result<Arc<dyn DiskFile>> {
        (self.hook)(Call::Reuse(old, new));
        Ok(self.file(new, self.disk.reuse_buffered(old, new, len)?))
    }
    fn rename(&self, old: &str, new: &str) -> io::Result<()> {
        (self.hook)(Call::Reuse(old, new));
        self.disk.rename(old, new)
    }
    fn delete(&self, name: &str) -> io::Result<()> {
        (self.hook)(Call::Delete(name));
        self.disk.delete(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn sync_directory(&self) -> io::Result<()> {
        self.disk.sync_directory()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
    fn goes_around_cache(&self) -> Option<bool> {
        self.disk.goes_around_cache()
    }
}

impl DiskFile for HookedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        (self.hook)(Call::Read(&self.name));
        self.file.read_at(buf, offset)
    }
    fn read_together(
        &self,
        reads: &mut [DiskRead<'_>],
        done: &mut dyn FnMut(usize, &DiskRead<'_>, io::Result<()>),
    ) {
        (self.hook)(Call::ReadTogether(&self.name, reads.len()));
        for (i, read) in reads.iter_mut().enumerate() {
            (self.hook)(Call::Read(&self.name));
            let made = self.file.read_many_at(&mut read.bufs, read.offset);
            done(i, read, made);
        }
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        (self.hook)(Call::Write(&self.name));
        self.file.write_at(buf, offset)
    }
    fn write_now(&self, buf: &[u8], offset: u64) -> bool {
        self.file.write_now(buf, offset)
    }
    fn write_back(&self, offset: u64, len: u64) {
        (self.hook)(Call::WriteBack(&self.name, offset, offset + len));
        self.file.write_back(offset, len);
    }
    fn discard(&self, offset: u64, len: u64) {
        self.file.discard(offset, len);
    }
    fn sync(&self) -> io::Result<()> {
        (self.hook)(Call::Sync(&self.name));
        self.file.sync()
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}
