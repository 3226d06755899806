//! Steps through operations of two threads of a process, one after the other, and notes each access of memory.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register,
};
use nix::libc::user_regs_struct;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::operation::{Operation, Structure};

/// Bytes of a line.
const LINE: u64 = 64;

/// Operations of each thread that are stepped through.
const OPERATIONS: usize = 8;

/// No operation takes this many instructions: a thread that comes here waits for one that is stopped.
const MOST_INSTRUCTIONS: u64 = 5_000_000;

/// The system call that is the mark.
const MARK: u64 = nix::libc::SYS_getppid as u64;

/// An access of memory.
pub struct Access {
    /// Number of the line.
    pub line: u64,
    pub write: bool,
    pub atomic: bool,
    /// The instruction of the program, relative to where it begins; of a library's, the one that calls it.
    pub site: u64,
    /// How many instructions were before it.
    pub at: usize,
}

/// One operation.
#[derive(Default)]
pub struct Run {
    pub instructions: u64,
    pub calls: u64,
    pub accesses: Vec<Access>,
}

/// A child that does not outlive this, and its threads that are traced.
struct Subject {
    child: Child,
    traced: Vec<Pid>,
}

impl Drop for Subject {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        // Its end is seen when who traces them has seen the end of all its threads.
        for tid in &self.traced {
            while matches!(waitpid(*tid, Some(WaitPidFlag::__WALL)), Ok(status) if !is_end(status))
            {
            }
        }
        let _ = self.child.wait();
    }
}

/// Runs `program` as the subject; the time of an operation alone, and the operations of both threads.
pub fn both(
    program: &Path,
    structure: Structure,
    operation: Operation,
) -> Result<(f64, [Vec<Run>; 2])> {
    let folder = Path::new("/dev/shm").join(format!("cores-{}", std::process::id()));
    // Nothing may be there from before.
    let _ = std::fs::remove_dir_all(&folder);
    let traced = traced(program, structure, operation, &folder);
    let _ = std::fs::remove_dir_all(&folder);
    traced
}

fn traced(
    program: &Path,
    structure: Structure,
    operation: Operation,
    folder: &Path,
) -> Result<(f64, [Vec<Run>; 2])> {
    let structure = format!("{structure:?}").to_lowercase();
    let mut child = Command::new(program)
        .args(["subject", &structure, &operation.name()])
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run the subject")?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let mut subject = Subject {
        child,
        traced: Vec::new(),
    };
    let mut line = String::new();
    BufReader::new(output.context("no output")?).read_line(&mut line)?;
    let said: Vec<&str> = line.split_whitespace().collect();
    let [one, two, alone] = said[..] else {
        bail!("the subject says {line:?}");
    };
    let mut tracer = Tracer::new(subject.child.id(), program)?;
    let tids = [one.parse()?, two.parse()?].map(Pid::from_raw);
    for tid in tids {
        ptrace::seize(tid, Options::PTRACE_O_TRACESYSGOOD).context(
            "cannot trace a child of one's own: containers may forbid it (SYS_PTRACE is what to ask for)",
        )?;
        subject.traced.push(tid);
        ptrace::interrupt(tid)?;
        wait(tid)?;
    }
    input.context("no input")?.write_all(b"\n")?;
    let mut runs = [Vec::new(), Vec::new()];
    for _ in 0..OPERATIONS {
        for (tid, runs) in tids.iter().zip(&mut runs) {
            to_mark(*tid)?;
            runs.push(tracer.operation(*tid)?);
        }
    }
    Ok((alone.parse()?, runs))
}

fn is_end(status: WaitStatus) -> bool {
    matches!(status, WaitStatus::Exited(..) | WaitStatus::Signaled(..))
}

fn wait(tid: Pid) -> Result<WaitStatus> {
    let status = waitpid(tid, Some(WaitPidFlag::__WALL))?;
    if is_end(status) {
        bail!("the subject has ended: {status:?}");
    }
    Ok(status)
}

/// Goes on to behind the next mark.
fn to_mark(tid: Pid) -> Result<()> {
    let mut seen = false;
    loop {
        ptrace::syscall(tid, None)?;
        if let WaitStatus::PtraceSyscall(_) = wait(tid)? {
            let is_mark = ptrace::getregs(tid)?.orig_rax == MARK;
            // Once when it begins, once when it ends.
            if is_mark && seen {
                return Ok(());
            }
            seen = is_mark;
        }
    }
}

/// What is known of the program's code.
struct Tracer {
    memory: File,
    /// Where the program's own code lies.
    code: std::ops::Range<u64>,
    decoded: HashMap<u64, Instruction>,
    info: InstructionInfoFactory,
}

impl Tracer {
    fn new(pid: u32, program: &Path) -> Result<Tracer> {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"))?;
        let program = program.canonicalize()?;
        let name = program.to_str().context("the program's name is no text")?;
        let (mut begin, mut end) = (u64::MAX, 0);
        for line in maps.lines().filter(|line| line.ends_with(name)) {
            let (range, _) = line.split_once(' ').context("a line of maps")?;
            let (from, to) = range.split_once('-').context("a range of maps")?;
            begin = begin.min(u64::from_str_radix(from, 16)?);
            end = end.max(u64::from_str_radix(to, 16)?);
        }
        ensure!(begin < end, "the program lies nowhere in its process");
        Ok(Tracer {
            memory: File::open(format!("/proc/{pid}/mem"))?,
            code: begin..end,
            decoded: HashMap::new(),
            info: InstructionInfoFactory::new(),
        })
    }

    fn decode(&mut self, at: u64) -> Result<Instruction> {
        if let Some(known) = self.decoded.get(&at) {
            return Ok(*known);
        }
        // The longest instruction; at the end of a mapping less can be read.
        let mut bytes = [0; 15];
        let read = self.memory.read_at(&mut bytes, at)?;
        let decoded = Decoder::with_ip(64, &bytes[..read], at, DecoderOptions::NONE).decode();
        ensure!(
            !decoded.is_invalid(),
            "an unknown instruction at {at:#x}: {bytes:x?}"
        );
        self.decoded.insert(at, decoded);
        Ok(decoded)
    }

    /// Steps from behind a mark to behind the next one.
    fn operation(&mut self, tid: Pid) -> Result<Run> {
        let mut run = Run::default();
        let mut callers: Vec<u64> = Vec::new();
        loop {
            let registers = ptrace::getregs(tid)?;
            let instruction = self.decode(registers.rip)?;
            match instruction.flow_control() {
                FlowControl::Call if instruction.mnemonic() == iced_x86::Mnemonic::Syscall => {
                    if registers.rax == MARK {
                        to_mark(tid)?;
                        return Ok(run);
                    }
                    run.calls += 1;
                }
                FlowControl::Call | FlowControl::IndirectCall => {
                    callers.push(instruction.next_ip())
                }
                FlowControl::Return => {
                    callers.pop();
                }
                _ => {}
            }
            self.note(&instruction, &registers, &callers, &mut run);
            run.instructions += 1;
            ensure!(
                run.instructions < MOST_INSTRUCTIONS,
                "an operation does not end"
            );
            ptrace::step(tid, None)?;
            match wait(tid)? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                // What a system call that was stepped over stops at.
                WaitStatus::PtraceSyscall(_) | WaitStatus::PtraceEvent(..) => {}
                other => bail!("stopped by {other:?}"),
            }
        }
    }

    fn note(
        &mut self,
        instruction: &Instruction,
        registers: &user_regs_struct,
        callers: &[u64],
        run: &mut Run,
    ) {
        let own = |at: &u64| self.code.contains(at);
        let called_from = || callers.iter().rev().map(|next| next - 1).find(own);
        let site = Some(registers.rip)
            .filter(own)
            .or_else(called_from)
            .map_or(0, |at| at - self.code.start);
        let locked = instruction.has_lock_prefix();
        for memory in self.info.info(instruction).used_memory() {
            let (write, read) = match memory.access() {
                OpAccess::Write | OpAccess::CondWrite => (true, false),
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                OpAccess::Read | OpAccess::CondRead => (false, true),
                // Addresses that are only computed, and prefetches.
                _ => continue,
            };
            let Some(from) = memory.virtual_address(0, |register, _, _| value(register, registers))
            else {
                continue;
            };
            // The stack is its thread's own, no other thread looks at it but the owner of a scope.
            let size = memory.memory_size().size().max(1) as u64;
            // An exchange with memory needs no prefix.
            let exchanges = instruction.mnemonic() == iced_x86::Mnemonic::Xchg;
            for line in from / LINE..=(from + size - 1) / LINE {
                run.accesses.push(Access {
                    line,
                    write,
                    atomic: write && (locked || (exchanges && read)),
                    site,
                    at: run.instructions as usize,
                });
            }
        }
    }
}

/// What `register` holds, as an address is computed of.
fn value(register: Register, registers: &user_regs_struct) -> Option<u64> {
    Some(match register {
        Register::FS => registers.fs_base,
        Register::GS => registers.gs_base,
        Register::ES | Register::CS | Register::SS | Register::DS => 0,
        Register::RIP => registers.rip,
        of if of.is_gpr() => {
            let whole = match of.full_register() {
                Register::RAX => registers.rax,
                Register::RBX => registers.rbx,
                Register::RCX => registers.rcx,
                Register::RDX => registers.rdx,
                Register::RSI => registers.rsi,
                Register::RDI => registers.rdi,
                Register::RBP => registers.rbp,
                Register::RSP => registers.rsp,
                Register::R8 => registers.r8,
                Register::R9 => registers.r9,
                Register::R10 => registers.r10,
                Register::R11 => registers.r11,
                Register::R12 => registers.r12,
                Register::R13 => registers.r13,
                Register::R14 => registers.r14,
                _ => registers.r15,
            };
            match of.size() {
                8 => whole,
                4 => whole & 0xFFFF_FFFF,
                2 => whole & 0xFFFF,
                _ => whole & 0xFF,
            }
        }
        _ => return None,
    })
}
