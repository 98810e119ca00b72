//! The chunked transfer coding of a body (RFC 9112, section 7.1).
//!
//! Invariant: every byte is examined once. Consumed bytes are never needed again, however the input
//! is cut. The form of extensions and trailers is checked, and their content is dropped.

use super::Error;

/// The most bytes of a chunk's size and extensions.
const MAX_SIZE_LINE: u32 = 256;

/// A body that is being decoded.
#[derive(Debug, Clone)]
pub struct Chunked {
    state: ChunkState,
    /// The bytes of data that the body may still have.
    room: u32,
    max_body_bytes: u32,
    /// The bytes that the trailer section may still have.
    trailer_room: u32,
    max_head_bytes: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChunkState {
    Size { size: u32, digits: u32 },
    Extension { size: u32, taken: u32, part: Part },
    SizeLf { size: u32 },
    Data { left: u32 },
    DataCr,
    DataLf,
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

/// A position in the extensions of a chunk. Each extension is `;name`, `;name=token` or
/// `;name="text"`. White space is allowed around `;` and `=`, but not at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// In white space that only an extension may follow.
    Before,
    /// After `;`.
    NameStart,
    Name,
    /// In white space after a name.
    NameEnd,
    /// After `=`.
    ValueStart,
    Token,
    Quoted,
    /// After `\` in a quoted text.
    Escaped,
    QuotedEnd,
}

impl Part {
    /// The position after a byte that does not end the line. `None` if the byte is not allowed.
    fn after(self, byte: u8) -> Option<Part> {
        Some(match (self, byte) {
            (Part::Quoted, b'"') => Part::QuotedEnd,
            (Part::Quoted, b'\\') => Part::Escaped,
            (Part::Quoted | Part::Escaped, b'\t' | 0x20..=0x7E | 0x80..=0xFF) => Part::Quoted,
            (Part::NameStart | Part::Name, _) if is_token(byte) => Part::Name,
            (Part::ValueStart | Part::Token, _) if is_token(byte) => Part::Token,
            (Part::ValueStart, b'"') => Part::Quoted,
            (Part::Name | Part::NameEnd, b'=') => Part::ValueStart,
            (Part::NameStart | Part::ValueStart, b' ' | b'\t') => self,
            (Part::Name | Part::NameEnd, b' ' | b'\t') => Part::NameEnd,
            (Part::Before | Part::Token | Part::QuotedEnd, b' ' | b'\t') => Part::Before,
            (Part::Before | Part::Name | Part::NameEnd | Part::Token | Part::QuotedEnd, b';') => {
                Part::NameStart
            }
            _ => return None,
        })
    }

    /// Whether the line may end here.
    fn is_whole(self) -> bool {
        matches!(self, Part::Name | Part::Token | Part::QuotedEnd)
    }
}

impl Chunked {
    /// A body of at most `max_body_bytes`, with trailers of at most `max_head_bytes`.
    pub fn new(max_body_bytes: u32, max_head_bytes: u32) -> Chunked {
        Chunked {
            state: ChunkState::Size { size: 0, digits: 0 },
            room: max_body_bytes,
            max_body_bytes,
            trailer_room: max_head_bytes,
            max_head_bytes,
        }
    }

    /// Whether the body has ended.
    pub fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Decodes the next bytes and passes pieces of data to `keep`. Returns the number of consumed
    /// bytes: all, or those up to the end of the body. After an error, the decoder must not be used
    /// again.
    pub fn decode(&mut self, input: &[u8], mut keep: impl FnMut(&[u8])) -> Result<usize, Error> {
        let mut at = 0;
        while at < input.len() && self.state != ChunkState::Done {
            if let ChunkState::Data { left } = self.state {
                let piece = &input[at..input.len().min(at + left as usize)];
                keep(piece);
                at += piece.len();
                let left = left - piece.len() as u32;
                self.state = if left == 0 { ChunkState::DataCr } else { ChunkState::Data { left } };
            } else {
                self.state = self.step(input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// The state after a byte that is not data.
    fn step(&mut self, byte: u8) -> Result<ChunkState, Error> {
        match self.state {
            ChunkState::Size { size, digits } => self.size(byte, size, digits),
            ChunkState::Extension { size, part, .. } if byte == b'\r' && part.is_whole() => {
                Ok(ChunkState::SizeLf { size })
            }
            ChunkState::Extension { taken, .. } if taken >= MAX_SIZE_LINE => Err(BAD_SIZE),
            ChunkState::Extension { size, taken, part } => {
                let part = part.after(byte).ok_or(BAD_EXTENSION)?;
                Ok(ChunkState::Extension { size, taken: taken + 1, part })
            }
            ChunkState::SizeLf { size } => self.begin_chunk(byte, size),
            ChunkState::DataCr => expect(byte, b'\r', ChunkState::DataLf, BAD_END),
            ChunkState::DataLf => {
                expect(byte, b'\n', ChunkState::Size { size: 0, digits: 0 }, BAD_END)
            }
            ChunkState::EndLf => expect(byte, b'\n', ChunkState::Done, BAD_TRAILER),
            ChunkState::TrailerStart
            | ChunkState::TrailerName
            | ChunkState::TrailerValue
            | ChunkState::TrailerLf => self.trailer(byte),
            ChunkState::Data { .. } | ChunkState::Done => Ok(self.state),
        }
    }

    fn size(&self, byte: u8, size: u32, digits: u32) -> Result<ChunkState, Error> {
        match (byte as char).to_digit(16) {
            // Leading zeros count as digits. A size line has no more digits than this.
            Some(_) if digits >= MAX_SIZE_LINE => Err(BAD_SIZE),
            Some(digit) => {
                let size = u64::from(size) * 16 + u64::from(digit);
                if size > u64::from(self.room) {
                    return Err(Error::TooLarge { max_bytes: self.max_body_bytes });
                }
                Ok(ChunkState::Size { size: size as u32, digits: digits + 1 })
            }
            None if digits == 0 => Err(BAD_SIZE),
            None => match byte {
                b'\r' => Ok(ChunkState::SizeLf { size }),
                _ => {
                    let part = Part::Before.after(byte).ok_or(BAD_SIZE)?;
                    Ok(ChunkState::Extension { size, taken: digits, part })
                }
            },
        }
    }

    fn begin_chunk(&mut self, byte: u8, size: u32) -> Result<ChunkState, Error> {
        let next =
            if size == 0 { ChunkState::TrailerStart } else { ChunkState::Data { left: size } };
        self.room -= size;
        expect(byte, b'\n', next, BAD_SIZE)
    }

    fn trailer(&mut self, byte: u8) -> Result<ChunkState, Error> {
        self.trailer_room = self
            .trailer_room
            .checked_sub(1)
            .ok_or(Error::HeadTooLarge { max_bytes: self.max_head_bytes })?;
        match (self.state, byte) {
            (ChunkState::TrailerStart, b'\r') => Ok(ChunkState::EndLf),
            (ChunkState::TrailerStart | ChunkState::TrailerName, _) if is_token(byte) => {
                Ok(ChunkState::TrailerName)
            }
            (ChunkState::TrailerName, b':') => Ok(ChunkState::TrailerValue),
            (ChunkState::TrailerValue, b'\r') => Ok(ChunkState::TrailerLf),
            (ChunkState::TrailerValue, b'\t' | 0x20..=0x7E | 0x80..=0xFF) => {
                Ok(ChunkState::TrailerValue)
            }
            (ChunkState::TrailerLf, b'\n') => Ok(ChunkState::TrailerStart),
            _ => Err(BAD_TRAILER),
        }
    }
}

const BAD_SIZE: Error = Error::BadHttp("bad chunk size: expected hexadecimal digits, then CR LF");
const BAD_EXTENSION: Error =
    Error::BadHttp("bad chunk extension: expected ;name or ;name=value, then CR LF");
const BAD_END: Error = Error::BadHttp("bad chunk: expected CR LF after its data");
const BAD_TRAILER: Error = Error::BadHttp("bad trailer: expected name: value CR LF");

fn expect(byte: u8, expected: u8, next: ChunkState, error: Error) -> Result<ChunkState, Error> {
    if byte == expected { Ok(next) } else { Err(error) }
}

/// Whether the byte may occur in a token (RFC 9110, section 5.6.2).
pub(super) fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WHOLE: &[u8] = b"4;a=\"b\"\r\nwiki\r\n0005\r\npedia\r\nC\r\n in\r\n\r\nchunk\r\n\
        0\r\nTrailer: x\r\nOther:\r\n\r\n";

    fn decode(pieces: &[&[u8]], max: u32) -> Result<(Vec<u8>, usize, bool), Error> {
        let mut chunked = Chunked::new(max, 32);
        let (mut data, mut taken) = (Vec::new(), 0);
        for piece in pieces {
            taken += chunked.decode(piece, |piece| data.extend_from_slice(piece))?;
        }
        Ok((data, taken, chunked.is_done()))
    }

    #[test]
    fn a_body_in_any_pieces() {
        let expected = (b"wikipedia in\r\n\r\nchunk"[..].to_vec(), WHOLE.len(), true);
        for cut in 0..=WHOLE.len() {
            let (head, tail) = WHOLE.split_at(cut);
            assert_eq!(decode(&[head, tail], 100), Ok(expected.clone()), "cut at {cut}");
        }
        let bytes: Vec<_> = WHOLE.chunks(1).collect();
        assert_eq!(decode(&bytes, 100), Ok(expected.clone()));
        assert_eq!(decode(&[WHOLE, b"GET /"], 21), Ok(expected), "and not a byte more");
    }

    #[test]
    fn bounds() {
        let too_large = Error::TooLarge { max_bytes: 4 };
        assert_eq!(decode(&[b"5\r"], 4), Err(too_large));
        assert_eq!(decode(&[b"4\r\nabcd\r\n1\r\n"], 4), Err(too_large));
        assert_eq!(decode(&[b"fffffffffffffffffffff"], 4), Err(too_large));
        assert_eq!(decode(&[b"4\r\nabcd\r\n0\r\n\r\n"], 4), Ok((b"abcd".to_vec(), 14, true)));
        let long = [b"1;".as_slice(), &[b'x'; 300]].concat();
        assert_eq!(decode(&[&long], 4), Err(BAD_SIZE));
        assert_eq!(decode(&[&[b'0'; 300]], 4), Err(BAD_SIZE));
        let trailer = [b"0\r\nA:".as_slice(), &[b'x'; 40]].concat();
        assert_eq!(decode(&[&trailer], 4), Err(Error::HeadTooLarge { max_bytes: 32 }));
    }

    // Shows: bad-input.
    #[test]
    fn extensions_are_read_over() {
        for extension in [
            ";a",
            ";a=b",
            ";a;b;c=d",
            ";a=\"\"",
            ";a=\"b;c=\u{e9} \\\" \t\\\\\";d",
            " ;a",
            "\t ; \ta \t= b ;c\t;d = \"e\" ;f",
            ";!#$%&'*+-.^_`|~=!",
        ] {
            let body = format!("1{extension}\r\nx\r\n0{extension}\r\n\r\n");
            let bytes: Vec<_> = body.as_bytes().chunks(1).collect();
            let expected = Ok((b"x".to_vec(), body.len(), true));
            assert_eq!(decode(&[body.as_bytes()], 9), expected, "{extension:?}");
            assert_eq!(decode(&bytes, 9), expected, "{extension:?}");
        }
        // The longest size line that is allowed, and one byte more.
        for (bytes, fits) in [(255, true), (256, false)] {
            let body = format!("1;a={}\r\nx\r\n0\r\n\r\n", "b".repeat(bytes - 2));
            assert_eq!(decode(&[body.as_bytes()], 9).is_ok(), fits, "{bytes}");
        }
    }

    // Shows: bad-input.
    #[test]
    fn faults() {
        for input in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1\n",
            "1\rx",
            "1 x\r\n",
            "1;\n",
            "1;\0\r\n",
            "2e;\r\n",
            "2e;=\r\n",
            "2e \r\n",
            "2e\t\r\n",
            "1; \r\n",
            "1;;a\r\n",
            "1;a;\r\n",
            "1;a=\r\n",
            "1;a= \r\n",
            "1;=b\r\n",
            "1;a \r\n",
            "1;a=b \r\n",
            "1;a=\"b\" \r\n",
            "1;a=b=c\r\n",
            "1;a b\r\n",
            "1;a=b c\r\n",
            "1;a=\"b\r\n",
            "1;a=\"b\\\r\n",
            "1;a=\"b\"c\r\n",
            "1;a=b\"c\"\r\n",
            "1;\"a\"\r\n",
            "1;a=\"\u{7f}\"\r\n",
            "1;a=\u{e9}\r\n",
            "1 a\r\n",
            "0;\r\n\r\n",
            "0 \r\n\r\n",
            "1\r\nab\r\n",
            "1\r\na\n",
            "1\r\na\rx",
            "0\r\nx\r\n",
            "0\r\n x: y\r\n",
            "0\r\nx : y\r\n",
            "0\r\n: y\r\n",
            "0\r\nx: y\n",
            "0\r\nx: \0\r\n",
            "0\r\n\n",
            "0\r\n\rx",
        ] {
            let error = decode(&[input.as_bytes()], 100).expect_err(input);
            assert_eq!((error.status(), error.code().word()), (400, "bad-http"), "{input:?}");
        }
    }
}
