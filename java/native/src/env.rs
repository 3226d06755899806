//! The JVM's side of a call: bytes in, bytes out, exceptions. The only file with unsafe code.
//!
//! Invariants: an [`Env`] and an array are made by the JVM for one call of one thread, and nobody else can make
//! one, as their fields are private. No function of the JVM is called while an exception is pending but for those that
//! may be, and bytes are copied, never pinned: a call may wait for a disk, and the collector must not wait for it.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::OnceLock;

use jni_sys::{
    JNI_ERR, JNI_VERSION_1_8, JNIEnv, JNINativeInterface_, JNINativeMethod, JavaVM, jboolean,
    jbyte, jbyteArray, jclass, jint, jlong, jlongArray, jmethodID, jobject, jobjectArray, jvalue,
};
use terrace_ffi::{Failure, Kind, Result};

/// Keys and small records are copied to the stack.
const ON_STACK: usize = 1024;

/// The JVM, as a call of a thread sees it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Env(*mut JNIEnv);

/// The class whose function is called.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Class(#[allow(dead_code, reason = "it is an argument of every function")] jclass);

/// A `byte[]` or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Bytes(jbyteArray);

/// A `long[]`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Longs(jlongArray);

/// A `byte[][]` or null.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct ManyBytes(jobjectArray);

/// A `Native.Attempt`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Attempt(jobject);

/// A function of `org.terrace.Native`.
pub struct Function {
    pub name: &'static CStr,
    pub signature: &'static CStr,
    pub call: *const c_void,
}

/// What a call answers when it has failed: then nobody looks at it.
pub trait Answer {
    const NOTHING: Self;
}

impl Answer for () {
    const NOTHING: () = ();
}
impl Answer for jint {
    const NOTHING: jint = 0;
}
impl Answer for jlong {
    const NOTHING: jlong = 0;
}
impl Answer for jboolean {
    const NOTHING: jboolean = false;
}
impl Answer for Bytes {
    const NOTHING: Bytes = Bytes(null_mut());
}
impl Answer for ManyBytes {
    const NOTHING: ManyBytes = ManyBytes(null_mut());
}

/// What exceptions are made with: a class that is kept for good, its constructor, the class of `byte[]`.
struct Known {
    exception: usize,
    constructor: usize,
    bytes: usize,
    attempt: usize,
}

static KNOWN: OnceLock<Known> = OnceLock::new();

/// A failure that the JVM has an exception for already.
fn pending() -> Failure {
    Failure::new(Kind::Unknown, "an exception of the JVM is pending")
}

impl Bytes {
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
}

impl Env {
    fn table(&self) -> &JNINativeInterface_ {
        // SAFETY: the JVM hands each call a pointer to its table of functions, which stays for good.
        unsafe { &**self.0 }
    }

    /// Runs a call; what fails becomes an exception, and a panic does not cross.
    #[inline]
    pub fn answer<R: Answer>(self, call: impl FnOnce() -> Result<R>) -> R {
        let failure = match catch_unwind(AssertUnwindSafe(call)) {
            Ok(Ok(answer)) => return answer,
            Ok(Err(failure)) => failure,
            Err(_) => Failure::new(
                Kind::Defect,
                "a defect of Terrace: a panic in the native side of its jar",
            ),
        };
        self.throw(&failure);
        R::NOTHING
    }

    /// Whether an exception is pending.
    fn is_pending(&self) -> bool {
        // SAFETY: may be called at any time.
        unsafe { (self.table().v1_2.ExceptionCheck)(self.0) }
    }

    #[cold]
    fn throw(&self, failure: &Failure) {
        let table = self.table();
        if self.is_pending() {
            return;
        }
        let (Ok(kind), Ok(text)) = (
            self.new_bytes(failure.kind.word().as_bytes()),
            self.new_bytes(failure.text.as_bytes()),
        ) else {
            return;
        };
        let Some(known) = KNOWN.get() else { return };
        let arguments = [jvalue { l: kind.0 }, jvalue { l: text.0 }];
        // SAFETY: the constructor is one of the class, and takes two arrays; the class is kept by a global reference.
        unsafe {
            let made = (table.v1_1.NewObjectA)(
                self.0,
                known.exception as jclass,
                known.constructor as jmethodID,
                arguments.as_ptr(),
            );
            if !made.is_null() {
                (table.v1_1.Throw)(self.0, made);
            }
        }
    }

    /// Copies the first `len` bytes of an array. The JVM checks that it has them.
    #[inline]
    fn copy(&self, array: Bytes, len: usize, to: *mut u8) {
        // SAFETY: `to` has room for `len` bytes, as all callers here see to. Where the array is shorter nothing is
        // copied and an exception is pending, so callers fill the room first where that can be.
        unsafe {
            (self.table().v1_1.GetByteArrayRegion)(
                self.0,
                array.0,
                0,
                len as jint,
                to.cast::<jbyte>(),
            )
        }
    }

    /// Calls with the first bytes of one or two arrays. `lens` are not larger than the arrays.
    #[inline]
    pub fn with<R>(
        &self,
        arrays: [(Bytes, jint); 2],
        call: impl FnOnce(&[u8], &[u8]) -> Result<R>,
    ) -> Result<R> {
        let [(one, first), (two, second)] = arrays;
        let (Ok(first), Ok(second)) = (usize::try_from(first), usize::try_from(second)) else {
            return Err(Failure::invalid("a length is negative"));
        };
        let len = first + second;
        let mut room = [const { MaybeUninit::<u8>::uninit() }; ON_STACK];
        let mut heap = Vec::new();
        let to: *mut u8 = if len <= ON_STACK {
            room.as_mut_ptr().cast()
        } else {
            heap.resize(len, 0);
            heap.as_mut_ptr()
        };
        // SAFETY: there is room for `len` bytes at `to`; zeros stand where a copy does not come about.
        unsafe { to.write_bytes(0, len) };
        if first > 0 {
            self.copy(one, first, to);
        }
        if second > 0 {
            // SAFETY: `first` is not more than `len`.
            self.copy(two, second, unsafe { to.add(first) });
        }
        // SAFETY: all `len` bytes at `to` were written above, and the room outlives the call.
        let (key, value) = unsafe { std::slice::from_raw_parts(to, len) }.split_at(first);
        call(key, value)
    }

    /// Calls with the first bytes of an array.
    #[inline]
    pub fn with_one<R>(
        &self,
        array: Bytes,
        len: jint,
        call: impl FnOnce(&[u8]) -> Result<R>,
    ) -> Result<R> {
        self.with([(array, len), (Bytes::NOTHING, 0)], |bytes, _| call(bytes))
    }

    /// The first bytes of a large array, into room that is used again.
    pub fn fill(&self, array: Bytes, len: jint, into: &mut Vec<u8>) -> Result<()> {
        let len = usize::try_from(len).map_err(|_| Failure::invalid("a length is negative"))?;
        into.clear();
        into.resize(len, 0);
        self.copy(array, len, into.as_mut_ptr());
        match self.is_pending() {
            false => Ok(()),
            true => Err(pending()),
        }
    }

    /// All of an array; none of null.
    pub fn all(&self, array: Bytes) -> Option<Vec<u8>> {
        if array.is_null() {
            return None;
        }
        // SAFETY: the array is not null.
        let len = unsafe { (self.table().v1_1.GetArrayLength)(self.0, array.0) };
        let mut bytes = Vec::new();
        self.fill(array, len, &mut bytes).ok().map(|()| bytes)
    }

    /// An array that is text.
    pub fn text(&self, array: Bytes) -> Result<String> {
        let bytes = self.all(array).unwrap_or_default();
        String::from_utf8(bytes).map_err(|_| Failure::invalid("a text is no UTF-8"))
    }

    /// The first numbers of an array.
    pub fn longs(&self, array: Longs, len: jint) -> Result<Vec<jlong>> {
        let mut longs =
            vec![0; usize::try_from(len).map_err(|_| Failure::invalid("a length is negative"))?];
        // SAFETY: there is room for `len` numbers; zeros stand where a copy does not come about.
        unsafe {
            (self.table().v1_1.GetLongArrayRegion)(self.0, array.0, 0, len, longs.as_mut_ptr())
        };
        match self.is_pending() {
            false => Ok(longs),
            true => Err(pending()),
        }
    }

    /// A new array.
    #[inline]
    pub fn new_bytes(&self, bytes: &[u8]) -> Result<Bytes> {
        let Ok(len) = jint::try_from(bytes.len()) else {
            return Err(Failure::invalid(
                "more than 2 GiB at once do not fit an array",
            ));
        };
        // SAFETY: the length is not negative; the answer is null, with an exception pending, if there is no memory.
        let array = unsafe { (self.table().v1_1.NewByteArray)(self.0, len) };
        if array.is_null() {
            return Err(pending());
        }
        let array = Bytes(array);
        self.write(array, bytes, len);
        Ok(array)
    }

    /// Copies to the beginning of an array: `len` bytes, which are there in both.
    #[inline]
    fn write(&self, array: Bytes, bytes: &[u8], len: jint) {
        debug_assert!(len as usize <= bytes.len());
        // SAFETY: `bytes` has `len` bytes at least; the JVM checks that the array has.
        unsafe {
            (self.table().v1_1.SetByteArrayRegion)(
                self.0,
                array.0,
                0,
                len,
                bytes.as_ptr().cast::<jbyte>(),
            )
        };
    }

    /// Copies as much as fits an array of this length.
    #[inline]
    pub fn write_some(&self, array: Bytes, capacity: jint, bytes: &[u8]) {
        let len = bytes.len().min(usize::try_from(capacity).unwrap_or(0));
        // Not longer than `capacity`.
        self.write(array, bytes, len as jint);
    }

    /// A new array of arrays.
    pub fn many(&self, all: &[Option<Vec<u8>>]) -> Result<ManyBytes> {
        let known = KNOWN.get().ok_or_else(pending)?;
        let len =
            jint::try_from(all.len()).map_err(|_| Failure::invalid("too many values at once"))?;
        let table = self.table();
        // SAFETY: the length is not negative, and the class is kept by a global reference.
        let many =
            unsafe { (table.v1_1.NewObjectArray)(self.0, len, known.bytes as jclass, null_mut()) };
        if many.is_null() {
            return Err(pending());
        }
        for (at, value) in all.iter().enumerate() {
            let Some(value) = value else { continue };
            let bytes = self.new_bytes(value)?;
            // SAFETY: `at` is below the length; the local reference is given back once, as many would fill the frame.
            unsafe {
                (table.v1_1.SetObjectArrayElement)(self.0, many, at as jint, bytes.0);
                (table.v1_1.DeleteLocalRef)(self.0, bytes.0);
            }
        }
        Ok(ManyBytes(many))
    }

    /// Runs an attempt of a transaction, which keeps what it has thrown.
    pub fn run(&self, attempt: Attempt, transaction: u64) -> Result<()> {
        let known = KNOWN.get().ok_or_else(pending)?;
        let table = self.table();
        let arguments = [jvalue {
            j: transaction as jlong,
        }];
        // SAFETY: the method is one of the attempt's class, and takes a `long`; what it throws (it runs out of stack) is
        // looked for right away.
        let done = unsafe {
            (table.v1_1.CallBooleanMethodA)(
                self.0,
                attempt.0,
                known.attempt as jmethodID,
                arguments.as_ptr(),
            )
        };
        match self.is_pending() || !done {
            false => Ok(()),
            true => Err(Failure::aborted()),
        }
    }

    /// A class that is kept for good.
    fn class(&self, name: &CStr) -> Option<jclass> {
        let table = self.table();
        // SAFETY: the name is a C string; null is answered with an exception pending.
        unsafe {
            let class = (table.v1_1.FindClass)(self.0, name.as_ptr());
            if class.is_null() {
                return None;
            }
            let kept = (table.v1_1.NewGlobalRef)(self.0, class);
            (!kept.is_null()).then_some(kept)
        }
    }

    fn prepare(&self, functions: &[Function]) -> Option<()> {
        let native = self.class(c"org/terrace/Native")?;
        let exception = self.class(c"org/terrace/TerraceException")?;
        let bytes = self.class(c"[B")?;
        let table = self.table();
        // SAFETY: the class is kept, and both texts are C strings.
        let constructor = unsafe {
            (table.v1_1.GetMethodID)(self.0, exception, c"<init>".as_ptr(), c"([B[B)V".as_ptr())
        };
        if constructor.is_null() {
            return None;
        }
        let callback = self.class(c"org/terrace/Native$Attempt")?;
        // SAFETY: as above.
        let attempt = unsafe {
            (table.v1_1.GetMethodID)(self.0, callback, c"run".as_ptr(), c"(J)Z".as_ptr())
        };
        if attempt.is_null() {
            return None;
        }
        let _ = KNOWN.set(Known {
            exception: exception as usize,
            constructor: constructor as usize,
            bytes: bytes as usize,
            attempt: attempt as usize,
        });
        let methods: Vec<JNINativeMethod> = functions
            .iter()
            .map(|function| JNINativeMethod {
                name: function.name.as_ptr().cast_mut(),
                signature: function.signature.as_ptr().cast_mut(),
                fnPtr: function.call.cast_mut(),
            })
            .collect();
        // SAFETY: the JVM checks that each name with its signature is a native method; `natives!` has both beside the
        // function, whose arguments they are.
        let registered = unsafe {
            (table.v1_1.RegisterNatives)(self.0, native, methods.as_ptr(), methods.len() as jint)
        };
        (registered == 0).then_some(())
    }
}

// SAFETY: the name is the JVM's, and no other library here has it.
#[unsafe(no_mangle)]
extern "system" fn JNI_OnLoad(vm: *mut JavaVM, _: *mut c_void) -> jint {
    let mut env = null_mut();
    // SAFETY: the JVM calls this with itself, on a thread that is attached.
    let answer = unsafe { ((**vm).v1_2.GetEnv)(vm, &mut env, JNI_VERSION_1_8) };
    if answer != 0 || env.is_null() {
        return JNI_ERR;
    }
    match Env(env.cast()).prepare(&crate::functions()) {
        Some(()) => JNI_VERSION_1_8,
        None => JNI_ERR,
    }
}
