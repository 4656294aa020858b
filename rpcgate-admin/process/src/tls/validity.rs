//! The validity period of a certificate (RFC 5280, section 4.1.2.5). Nothing else of X.509 is read here.

use rpcgate_config::parse_moment;
use rpcgate_core::clock::Time;
use std::ops::Range;

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// The tag of a certificate's optional version.
const VERSION: u8 = 0xa0;

/// Splits an element of DER into its tag, its content, and the rest.
fn element(input: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = input.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (
                bytes
                    .iter()
                    .try_fold(0_usize, |all, byte| all.checked_mul(256)?.checked_add((*byte).into()))?,
                rest,
            )
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((*tag, content, rest))
}

/// Returns the content of the element of this kind at the start of `input`, and the rest.
fn expect(input: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(input).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

/// Parses a time in microseconds; a time before 1970 counts as 1970.
fn time(input: &[u8]) -> Option<(Time, &[u8])> {
    let (tag, content, rest) = element(input)?;
    let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
    let is_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let full = match (tag, text.len()) {
        (UTC_TIME, 12) if is_digits => format!("{}{text}", if text < "5" { "20" } else { "19" }),
        (GENERALIZED_TIME, 14) if is_digits => text.to_owned(),
        _ => return None,
    };
    let part = |range: Range<usize>| full.get(range).unwrap_or_default();
    let date = [part(0..4), part(4..6), part(6..8)];
    let clock = [part(8..10), part(10..12), part(12..14)];
    let moment = format!("{}T{}Z", date.join("-"), clock.join(":"));
    let at = if part(0..4) < "1970" { Time::from_secs(0) } else { parse_moment(&moment)? };
    Some((at, rest))
}

/// Returns the period in which a certificate in DER is valid; its end is the first moment after it. `None` if it cannot
/// be read.
pub fn validity(certificate: &[u8]) -> Option<Range<Time>> {
    let (certificate, _) = expect(certificate, SEQUENCE)?;
    let (mut rest, _) = expect(certificate, SEQUENCE)?;
    if let Some((_, after)) = expect(rest, VERSION) {
        rest = after;
    }
    let (_serial, rest) = expect(rest, INTEGER)?;
    let (_algorithm, rest) = expect(rest, SEQUENCE)?;
    let (_issuer, rest) = expect(rest, SEQUENCE)?;
    let (validity, _) = expect(rest, SEQUENCE)?;
    let (from, rest) = time(validity)?;
    let (until, _) = time(rest)?;
    // The last second is included.
    Some(from..until.plus(std::time::Duration::from_secs(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn made(from: (i32, u8, u8), until: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["localhost".into()]).unwrap();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(until.0, until.1, until.2);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    fn secs(certificate: &[u8]) -> Option<(u64, u64)> {
        validity(certificate).map(|valid| (valid.start.secs(), valid.end.secs()))
    }

    #[test]
    fn both_forms_of_a_time_are_read() {
        assert_eq!(secs(&made((2026, 12, 31), (2027, 1, 31))), Some((1_798_675_200, 1_801_353_601)));
        assert_eq!(secs(&made((2026, 12, 31), (2060, 1, 1))), Some((1_798_675_200, 2_840_140_801)));
        assert_eq!(secs(&made((1960, 1, 1), (2027, 1, 31))), Some((0, 1_801_353_601)));
    }

    #[test]
    fn bytes_that_are_no_certificate_have_no_validity() {
        let good = made((2026, 12, 31), (2027, 1, 31));
        for cut in 0..good.len() {
            assert_eq!(secs(&good[..cut]), None, "{cut}");
        }
        for bytes in
            [&b""[..], b"\x30", b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"\x30\x85\x01\x01\x01\x01\x01"]
        {
            assert_eq!(secs(bytes), None, "{bytes:?}");
        }
        for at in 0..good.len().min(200) {
            let mut changed = good.clone();
            changed[at] ^= 0xff;
            let _ = secs(&changed);
        }
    }
}
