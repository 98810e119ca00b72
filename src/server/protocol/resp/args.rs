//! The arguments of a command.
//!
//! Invariant: what is read here has been scanned as a whole, or was written here. Bytes that are
//! neither end the arguments, and never panic.

/// The arguments that are left of a command.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> Args<'a> {
    /// Those of an array, with its header.
    #[inline]
    pub fn of_array(array: &'a [u8]) -> Args<'a> {
        let Some((left, rest)) = header(array) else { return Args { rest: &[], left: 0 } };
        Args { rest, left }
    }

    /// The first `count` of them, or all if there are fewer.
    #[inline]
    pub fn first(self, count: usize) -> Args<'a> {
        Args { left: self.left.min(count), ..self }
    }

    /// So many bulks.
    pub fn of_bulks(bulks: &'a [u8], count: usize) -> Args<'a> {
        Args { rest: bulks, left: count }
    }
}

impl<'a> Iterator for Args<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let (length, rest) = header(self.rest)?;
        let (argument, rest) = rest.split_at_checked(length)?;
        self.rest = rest.get(2..)?;
        Some(argument)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Args<'_> {}

/// The number of the header at the beginning, and what follows it.
#[inline(always)]
fn header(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0_usize;
    for (at, &byte) in bytes.iter().enumerate().skip(1) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Some((number, bytes.get(at + 2..)?));
        }
        number = number.wrapping_mul(10).wrapping_add(digit.into());
    }
    None
}

/// Appends a command as an array.
pub fn push_command(text: &mut Vec<u8>, args: Args<'_>) {
    push_header(text, b'*', args.len());
    for argument in args {
        push_header(text, b'$', argument.len());
        text.extend_from_slice(argument);
        text.extend_from_slice(b"\r\n");
    }
}

fn push_header(text: &mut Vec<u8>, kind: u8, number: usize) {
    text.push(kind);
    text.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    text.extend_from_slice(b"\r\n");
}

/// The bytes that [`push_command`] appends.
pub fn command_bytes(args: Args<'_>) -> usize {
    let bulk = |argument: &[u8]| header_bytes(argument.len()) + argument.len() + 2;
    header_bytes(args.len()) + args.map(bulk).sum::<usize>()
}

fn header_bytes(number: usize) -> usize {
    1 + number.checked_ilog10().unwrap_or(0) as usize + 1 + 2
}
