//! Compressed request bodies: the supported content codings, and gzip decoding within the limits of a body.

use bytes::buf::{Buf, Reader};
use bytes::{Bytes, BytesMut};
use flate2::bufread::GzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use rpcgate_core::memory::MemoryPermit;
use rpcgate_core::refusal::Refusal;
use std::fmt;
use std::io::Read;
use std::task::{Context, Poll};

/// The content coding of a request body (RFC 9110 section 8.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coding {
    Identity,
    Gzip,
    /// An unsupported coding, or several codings on top of each other.
    Unknown,
}

impl Coding {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut codings = headers.get_all(CONTENT_ENCODING).iter();
        let (Some(coding), None) = (codings.next(), codings.next()) else {
            return if headers.contains_key(CONTENT_ENCODING) { Coding::Unknown } else { Coding::Identity };
        };
        let coding = coding.as_bytes().trim_ascii();
        let is = |name: &[u8]| coding.eq_ignore_ascii_case(name);
        if coding.is_empty() || is(b"identity") {
            Coding::Identity
        } else if is(b"gzip") || is(b"x-gzip") {
            Coding::Gzip
        } else {
            Coding::Unknown
        }
    }
}

/// The number of bytes to decode before memory is taken for them.
const STEP: usize = 64 << 10;
/// The number of steps after which the task yields to other tasks of its thread.
const STEPS: usize = 8;

/// A body being decoded.
///
/// A body of several gzip members is refused: it could have thousands of empty members, and the decoder would
/// initialise itself for each of them.
pub(super) struct Decoding {
    packed: GzDecoder<Reader<Bytes>>,
    plain: BytesMut,
}

impl fmt::Debug for Decoding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoding").field("decoded", &self.plain.len()).finish_non_exhaustive()
    }
}

impl Decoding {
    pub(super) fn new(packed: Bytes) -> Self {
        Decoding { packed: GzDecoder::new(packed.reader()), plain: BytesMut::new() }
    }

    /// Continues to decode, up to `most` bytes. Each decoded byte takes `copies` bytes of memory from `held`.
    ///
    /// # Errors
    /// Returns [`Refusal::BodyTooLarge`], [`Refusal::Overloaded`] if no memory is left, and [`Refusal::ParseError`] if
    /// the body is not exactly one gzip member.
    pub(super) fn poll(
        &mut self,
        most: usize,
        copies: usize,
        held: &mut MemoryPermit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, Refusal>> {
        for _ in 0..STEPS {
            let before = self.plain.len();
            self.plain.resize(before + STEP, 0);
            let read = self.packed.read(self.plain.get_mut(before..).unwrap_or_default());
            self.plain.truncate(before + read.as_ref().copied().unwrap_or_default());
            match read {
                Ok(0) if self.packed.get_ref().get_ref().has_remaining() => {
                    return Poll::Ready(Err(Refusal::ParseError));
                }
                Ok(0) => return Poll::Ready(Ok(std::mem::take(&mut self.plain).freeze())),
                Ok(_) if self.plain.len() > most => return Poll::Ready(Err(Refusal::BodyTooLarge)),
                Ok(read) => {
                    if held.take(copies * read).is_err() {
                        return Poll::Ready(Err(Refusal::Overloaded));
                    }
                }
                Err(_) => return Poll::Ready(Err(Refusal::ParseError)),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::HeaderValue;
    use rpcgate_core::memory::MemoryBudget;
    use std::future::poll_fn;
    use std::io::Write;

    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    async fn decoded(packed: Vec<u8>, most: usize, held: &mut MemoryPermit) -> Result<Bytes, Refusal> {
        let mut decoding = Decoding::new(packed.into());
        poll_fn(|cx| decoding.poll(most, 2, held, cx)).await
    }

    #[test]
    fn only_one_coding_is_understood_at_a_time() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            Coding::of(&headers)
        };
        assert_eq!(of(&[]), Coding::Identity);
        for (value, coding) in [
            ("", Coding::Identity),
            ("Identity", Coding::Identity),
            ("gzip", Coding::Gzip),
            (" X-GZIP ", Coding::Gzip),
            ("gzip, gzip", Coding::Unknown),
            ("identity, gzip", Coding::Unknown),
            ("br", Coding::Unknown),
            ("deflate", Coding::Unknown),
            ("zstd", Coding::Unknown),
        ] {
            assert_eq!(of(&[value]), coding, "{value}");
        }
        assert_eq!(of(&["gzip", "gzip"]), Coding::Unknown);
    }

    #[tokio::test]
    async fn a_body_is_decoded_up_to_its_limit() {
        let plain = vec![b'x'; 2 << 20];
        let none = &mut MemoryPermit::default();
        assert_eq!(decoded(packed(&plain), plain.len(), none).await.unwrap(), plain);
        assert_eq!(decoded(packed(&plain), plain.len() - 1, none).await, Err(Refusal::BodyTooLarge));
        assert_eq!(decoded(packed(b""), 0, none).await.unwrap(), "");
    }

    // Shows (Hostile and odd traffic).
    #[tokio::test]
    async fn a_bomb_takes_no_more_memory_than_its_limit() {
        let bomb = packed(&vec![b'x'; 64 << 20]);
        assert!(bomb.len() < 1 << 20);
        let mut decoding = Decoding::new(bomb.into());
        let result = poll_fn(|cx| decoding.poll(1 << 20, 2, &mut MemoryPermit::default(), cx)).await;
        assert_eq!(result, Err(Refusal::BodyTooLarge));
        assert!(decoding.plain.len() <= (1 << 20) + STEP);
        let mut small = MemoryPermit::of(MemoryBudget::new(300 << 10));
        assert_eq!(
            decoded(packed(&vec![b'x'; 1 << 20]), 5 << 20, &mut small).await,
            Err(Refusal::Overloaded)
        );
    }

    // Shows (Hostile and odd traffic).
    #[tokio::test]
    async fn a_body_with_anything_but_one_gzip_member_is_invalid() {
        let whole = packed(b"hello");
        let mut wrong = whole.clone();
        *wrong.last_mut().unwrap() ^= 1;
        for bad in [
            b"hello".to_vec(),
            Vec::new(),
            whole[..whole.len() - 1].to_vec(),
            [whole.clone(), b"more".to_vec()].concat(),
            [whole.clone(), packed(b"")].concat(),
            wrong,
        ] {
            let none = &mut MemoryPermit::default();
            assert_eq!(decoded(bad.clone(), 100, none).await, Err(Refusal::ParseError), "{bad:?}");
        }
    }
}
