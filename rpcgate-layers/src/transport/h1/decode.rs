use crate::nodes::error::NodeRequestError;
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use rpcgate_core::fault::{Cause, Fault};
use rpcgate_core::memory::MemoryPermit;
use std::io::{self, Read};

/// A supported content coding: RFC 9110 section 8.4.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coding {
    Identity,
    Gzip,
    /// With the zlib header, as the RFC requires, or without it, as some servers send it.
    Deflate,
}

impl Coding {
    /// Returns the coding of an answer with these headers; `None` for an unsupported one, such as two nested codings.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut codings = headers.get_all(CONTENT_ENCODING).iter();
        let Some(coding) = codings.next() else {
            return Some(Coding::Identity);
        };
        if codings.next().is_some() {
            return None;
        }
        match coding.to_str().ok()?.trim() {
            "" => Some(Coding::Identity),
            coding if coding.eq_ignore_ascii_case("identity") => Some(Coding::Identity),
            coding if coding.eq_ignore_ascii_case("gzip") || coding.eq_ignore_ascii_case("x-gzip") => {
                Some(Coding::Gzip)
            }
            coding if coding.eq_ignore_ascii_case("deflate") => Some(Coding::Deflate),
            _ => None,
        }
    }
}

/// The bytes that are decoded before memory is taken for them.
const STEP: usize = 64 << 10;
/// The number of steps after which the task yields to others of its thread.
const STEPS: usize = 8;

/// Decodes `body`. Fails as soon as the result has more than `max` bytes.
pub(super) async fn decode(
    coding: Coding,
    body: Bytes,
    max: usize,
    memory: &mut MemoryPermit,
) -> Result<Bytes, NodeRequestError> {
    // An empty answer needs no decoding, whatever its headers say.
    if coding == Coding::Identity || body.is_empty() {
        return Ok(body);
    }
    let mut source: Box<dyn Source + Send + '_> = match coding {
        Coding::Deflate => Box::new(Deflate::new(&body)),
        Coding::Gzip | Coding::Identity => Box::new(MultiGzDecoder::new(&body[..])),
    };
    let mut decoded = Vec::new();
    for step in 1_usize.. {
        let before = decoded.len();
        decoded.resize(before + STEP, 0);
        let space = decoded.get_mut(before..).unwrap_or_default();
        let read = source.fill(space).map_err(|_| Fault::sent(Cause::Undecodable))?;
        decoded.truncate(before + read);
        if read == 0 {
            break;
        }
        if decoded.len() > max {
            return Err(Fault::sent(Cause::Oversize).into());
        }
        memory.take(read).map_err(|_| NodeRequestError::Busy)?;
        if step % STEPS == 0 {
            tokio::task::yield_now().await;
        }
    }
    Ok(decoded.into())
}

trait Source {
    /// Decodes into `space` and returns the number of bytes; 0 at the end of a complete body.
    fn fill(&mut self, space: &mut [u8]) -> io::Result<usize>;
}

impl Source for MultiGzDecoder<&[u8]> {
    fn fill(&mut self, space: &mut [u8]) -> io::Result<usize> {
        self.read(space)
    }
}

struct Deflate<'a> {
    body: &'a [u8],
    inflate: Decompress,
    ended: bool,
}

impl<'a> Deflate<'a> {
    fn new(body: &'a [u8]) -> Self {
        // RFC 1950 section 2.2: the low half of the first byte is 8, and both bytes together are a multiple of 31.
        let framed = matches!(body, [method, flags, ..]
            if method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]).is_multiple_of(31));
        Deflate { body, inflate: Decompress::new(framed), ended: false }
    }
}

impl Source for Deflate<'_> {
    fn fill(&mut self, space: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while !self.ended && filled < space.len() {
            let read = self.inflate.total_in();
            let written = self.inflate.total_out();
            let out = space.get_mut(filled..).unwrap_or_default();
            let status = self.inflate.decompress(self.body, out, FlushDecompress::None)?;
            let read = (self.inflate.total_in() - read) as usize;
            let written = (self.inflate.total_out() - written) as usize;
            self.body = self.body.get(read..).unwrap_or_default();
            filled += written;
            match status {
                Status::StreamEnd if self.body.is_empty() => self.ended = true,
                Status::StreamEnd => return Err(io::ErrorKind::InvalidData.into()),
                Status::Ok | Status::BufError if read == 0 && written == 0 => {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Status::Ok | Status::BufError => {}
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use http::HeaderValue;
    use rpcgate_core::memory::MemoryBudget;
    use std::io::Write;

    fn text() -> Vec<u8> {
        (0..300_000_u32).flat_map(|n| n.to_string().into_bytes()).collect()
    }

    fn codings(text: &[u8]) -> Vec<(Coding, Vec<u8>)> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text).unwrap();
        zlib.write_all(text).unwrap();
        raw.write_all(text).unwrap();
        vec![
            (Coding::Gzip, gzip.finish().unwrap()),
            (Coding::Deflate, zlib.finish().unwrap()),
            (Coding::Deflate, raw.finish().unwrap()),
        ]
    }

    async fn decoded(coding: Coding, body: &[u8], largest: usize) -> Result<Bytes, NodeRequestError> {
        decode(coding, Bytes::copy_from_slice(body), largest, &mut MemoryPermit::default()).await
    }

    #[tokio::test]
    async fn each_coding_is_undone() {
        let text = text();
        for (coding, body) in codings(&text) {
            assert_eq!(decoded(coding, &body, text.len()).await.unwrap(), text, "{coding:?}");
            assert_eq!(
                decoded(coding, &body, text.len() - 1).await,
                Err(Fault::sent(Cause::Oversize).into())
            );
        }
    }

    #[tokio::test]
    async fn a_cut_or_prolonged_body_is_a_fault() {
        for (coding, body) in codings(&text()) {
            for cut in [1, 2, 10, body.len() / 2, body.len() - 1] {
                let result = decoded(coding, &body[..cut], usize::MAX).await;
                assert_eq!(result, Err(Fault::sent(Cause::Undecodable).into()), "{coding:?} cut at {cut}");
            }
            let longer = [&body[..], b"xyz"].concat();
            assert!(decoded(coding, &longer, usize::MAX).await.is_err(), "{coding:?}");
        }
    }

    #[tokio::test]
    async fn a_decompression_bomb_takes_no_more_than_the_limit() {
        for (coding, body) in codings(&vec![b' '; 100 << 20]) {
            let memory = MemoryBudget::new(1 << 30);
            let mut held = MemoryPermit::of(memory.clone());
            let result = decode(coding, body.into(), 1 << 20, &mut held).await;
            assert_eq!(result, Err(Fault::sent(Cause::Oversize).into()));
            assert!(memory.held() <= 1 << 20);
        }
    }

    #[tokio::test]
    async fn decoded_bytes_take_memory() {
        for (coding, body) in codings(&text()) {
            let mut held = MemoryPermit::of(MemoryBudget::new(100_000));
            assert_eq!(decode(coding, body.into(), usize::MAX, &mut held).await, Err(NodeRequestError::Busy));
        }
    }

    #[test]
    fn codings_are_known_by_name() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            Coding::of(&headers)
        };
        assert_eq!(of(&[]), Some(Coding::Identity));
        assert_eq!(of(&["identity"]), Some(Coding::Identity));
        assert_eq!(of(&["GZIP"]), Some(Coding::Gzip));
        assert_eq!(of(&["deflate"]), Some(Coding::Deflate));
        for unknown in [&["br"][..], &["gzip, gzip"], &["gzip", "gzip"], &["zstd"]] {
            assert_eq!(of(unknown), None, "{unknown:?}");
        }
    }
}
