//! Information from the kernel about this machine: its boot, its random source, processor time.
//!
//! Invariant: nothing here is needed to serve a request.

use std::io;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

use super::process::children::stat_field;

/// Words from the kernel's random source.
pub fn random<const N: usize>() -> io::Result<[u64; N]> {
    let mut words = [0u64; N];
    // SAFETY: the kernel writes at most as many bytes as the borrowed array has.
    let got = unsafe { libc::getrandom(words.as_mut_ptr().cast(), size_of_val(&words), 0) };
    // The kernel returns all of at most 256 bytes at once.
    const { assert!(8 * N <= 256) }
    match Errno::result(got)? as usize == size_of_val(&words) {
        true => Ok(words),
        false => Err(io::ErrorKind::Interrupted.into()),
    }
}

/// Identifies this boot of this machine (`/proc/sys/kernel/random/boot_id`).
pub fn boot_id() -> io::Result<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    parse_boot_id(&text).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("boot_id: expected a UUID, found {text:?}"),
        )
    })
}

fn parse_boot_id(text: &str) -> Option<[u64; 2]> {
    let digits: String = text.trim().chars().filter(|c| *c != '-').collect();
    let id = u128::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 32)?;
    Some([(id >> 64) as u64, id as u64])
}

/// The processor time that a process has used, in milliseconds. None if it is unknown. (Fields 14
/// and 15 of proc_pid_stat(5), in clock ticks.)
pub fn cpu_ms(pid: u32) -> Option<u64> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?);
    let ticks = |number| stat_field(pid, number)?.parse::<u64>().ok();
    let (user, system) = (ticks(14)?, ticks(15)?);
    let per_s = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK).ok()??;
    user.saturating_add(system).saturating_mul(1000).checked_div(u64::try_from(per_s).ok()?)
}
