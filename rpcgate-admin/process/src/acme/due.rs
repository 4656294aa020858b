//! The decision to order a certificate, from the state of the folder and the time.

use super::folder::{LastOrder, OrderState};
use super::held::HeldCertificate;
use ring::digest;
use rpcgate_core::clock::Time;
use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The pause after the first failed order. Each further failure doubles it.
const FIRST: Duration = Duration::from_secs(5 * 60);
const LONGEST: Duration = Duration::from_secs(24 * 3_600);
/// The pause after a successful order. A certificate that is due at once, for example because of a wrong clock, must
/// not be ordered in a loop.
const AFTER_SUCCESS: Duration = Duration::from_secs(12 * 3_600);
/// The same pause if the certificate is lost or was replaced by one for other names.
const AFTER_LOSS: Duration = Duration::from_secs(3_600);

/// The reason to order a certificate.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OrderReason {
    /// There is no usable certificate.
    Unusable(String),
    /// The certificate is not for this name.
    OtherNames(String),
    /// The certificate was signed by the authority with this directory URL.
    OtherAuthority(String),
    /// Two thirds of its lifetime are over.
    Renewal(Time),
}

impl fmt::Display for OrderReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OrderReason::Unusable(why) => write!(f, "there is none that can be used: {why}"),
            OrderReason::OtherNames(name) => write!(f, "the one in use is not for {name}"),
            OrderReason::OtherAuthority(directory) => write!(f, "the one in use is of {directory}"),
            OrderReason::Renewal(end) => {
                write!(f, "the one in use ends at {}", rpcgate_config::moment_text(*end))
            }
        }
    }
}

/// Returns the reason to order a certificate for these names at this time, if any.
pub fn reason(
    held: &Result<HeldCertificate, String>,
    state: &OrderState,
    directory: &str,
    domains: &[String],
    now: Time,
) -> Option<OrderReason> {
    let held = match held {
        Ok(held) => held,
        Err(why) => return Some(OrderReason::Unusable(why.clone())),
    };
    if let Some(name) = domains.iter().find(|name| !held.is_for(name)) {
        return Some(OrderReason::OtherNames((*name).clone()));
    }
    if let Some(other) = state.signed_by.as_ref().filter(|other| *other != directory) {
        return Some(OrderReason::OtherAuthority(other.clone()));
    }
    (renewal(&held.valid, &held.leaf) <= now).then_some(OrderReason::Renewal(held.valid.end))
}

/// Returns the time before which no order for this reason begins, if the last one for these names forbids it now. A
/// change of the names or the authority lifts the pause, because it may fix the cause of the failure.
pub fn pause(
    state: &OrderState,
    directory: &str,
    domains: &[String],
    reason: &OrderReason,
    now: Time,
) -> Option<Time> {
    let last = state.order(directory, domains)?;
    let is_lost = last.failures == 0 && !matches!(reason, OrderReason::Renewal(_));
    let less = if is_lost { (AFTER_SUCCESS - AFTER_LOSS).as_secs() } else { 0 };
    let next = Time::from_secs(last.next.saturating_sub(less));
    // A longer pause was stored while the clock was wrong, and is ignored.
    let is_possible = next <= now.plus(LONGEST + LONGEST / 4);
    (now < next && is_possible).then_some(next)
}

/// Returns the renewal time of a certificate: after two thirds of its lifetime, plus up to a thirtieth that its content
/// determines, so that many certificates of one day are not renewed at the same time.
pub fn renewal(valid: &Range<Time>, leaf: &[u8]) -> Time {
    let life = valid.end.since(valid.start);
    let share = match *digest::digest(&digest::SHA256, leaf).as_ref() {
        [first, second, ..] => u32::from(u16::from_be_bytes([first, second])),
        _ => 0,
    };
    Time::from_secs(valid.start.plus(life / 3 * 2 + life / 30 / 65_536 * share).secs())
}

/// Returns an order for these names that begins at this time, after `state`. `share`, from 0 to 255, extends the pause
/// by up to a quarter.
pub(super) fn begun(
    state: &OrderState,
    directory: &str,
    domains: &[String],
    now: Time,
    share: u8,
) -> LastOrder {
    let failures = state.order(directory, domains).map_or(0, |last| last.failures).saturating_add(1);
    let pause = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(LONGEST);
    let pause = pause + pause / 4 / 255 * u32::from(share);
    LastOrder::begun(directory, domains, failures, now.plus(pause))
}

pub(super) fn done(order: LastOrder, now: Time) -> LastOrder {
    LastOrder { failures: 0, next: now.plus(AFTER_SUCCESS).secs(), why: String::new(), ..order }
}

/// Returns the order as failed. The authority may request a longer pause, up to [`LONGEST`].
pub(super) fn failed(order: LastOrder, why: String, requested: Duration, now: Time) -> LastOrder {
    LastOrder { next: order.next.max(now.plus(requested.min(LONGEST)).secs()), why, ..order }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIRECTORY: &str = "https://ca.example/directory";
    const DAY: u64 = 86_400;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    // Shows (Commands and configuration).
    #[test]
    fn the_pause_grows_from_minutes_to_a_day_and_no_further() {
        let now = Time::from_secs(1_000_000);
        let domains = names(&["a.example"]);
        let mut state = OrderState::default();
        let mut pauses = Vec::new();
        for _ in 0..40 {
            let order = begun(&state, DIRECTORY, &domains, now, 0);
            pauses.push(order.next().since(now).as_secs() / 60);
            state.last = Some(failed(order, "no".into(), Duration::ZERO, now));
        }
        assert_eq!(pauses[..10], [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 1_440]);
        assert!(pauses[10..].iter().all(|pause| *pause == 1_440), "{pauses:?}");
        assert_eq!(state.last.as_ref().unwrap().failures, 40);
        let longest = begun(&state, DIRECTORY, &domains, now, 255).next().since(now);
        assert!(
            (108_000 - 300..=108_000).contains(&longest.as_secs()),
            "a quarter more at most: {longest:?}"
        );
        let first = begun(&OrderState::default(), DIRECTORY, &domains, now, 255).next().since(now);
        assert!((370..=375).contains(&first.as_secs()), "{first:?}");
    }

    #[test]
    fn an_authority_may_ask_for_a_longer_pause_within_a_day() {
        let now = Time::from_secs(1_000_000);
        let order = begun(&OrderState::default(), DIRECTORY, &names(&["a.example"]), now, 0);
        let pause = |requested: u64| {
            failed(order.clone(), "no".into(), Duration::from_secs(requested), now)
                .next()
                .since(now)
                .as_secs()
        };
        assert_eq!([pause(0), pause(60), pause(3_600), pause(u64::MAX)], [300, 300, 3_600, 86_400]);
    }

    #[test]
    fn a_pause_applies_to_the_same_names_and_authority_until_it_ends() {
        let now = Time::from_secs(1_000_000);
        let ours = names(&["a.example"]);
        let others = names(&["b.example"]);
        let order = begun(&OrderState::default(), DIRECTORY, &ours, now, 0);
        let state = OrderState { last: Some(order.clone()), ..OrderState::default() };
        let renewal = OrderReason::Renewal(now);
        let is_paused = |directory: &str, domains: &[String], now| {
            pause(&state, directory, domains, &renewal, now).is_some()
        };
        assert!(is_paused(DIRECTORY, &ours, now));
        assert!(is_paused(DIRECTORY, &ours, Time::from_secs(order.next - 1)));
        assert!(!is_paused(DIRECTORY, &ours, order.next()));
        assert!(!is_paused(DIRECTORY, &others, now) && !is_paused("https://other.example", &ours, now));
        let other = begun(&state, DIRECTORY, &others, now, 0);
        assert_eq!(other.failures, 1, "other names begin anew");
        let state = OrderState { last: Some(done(order, now)), ..state };
        let is_paused =
            |reason: &OrderReason, after| pause(&state, DIRECTORY, &ours, reason, now.plus(after)).is_some();
        let second = Duration::from_secs(1);
        assert!(is_paused(&renewal, AFTER_SUCCESS - second) && !is_paused(&renewal, AFTER_SUCCESS));
        let lost = OrderReason::Unusable("gone".into());
        assert!(is_paused(&lost, AFTER_LOSS - second) && !is_paused(&lost, AFTER_LOSS));
    }

    // Shows (Commands and configuration).
    #[test]
    fn a_pause_that_was_written_while_the_clock_was_wrong_forbids_nothing() {
        let now = Time::from_secs(1_000_000);
        let domains = names(&["a.example"]);
        let renewal = OrderReason::Renewal(now);
        let is_paused = |written: Time| {
            let order = begun(&OrderState::default(), DIRECTORY, &domains, written, 255);
            let order = failed(order, "no".into(), LONGEST, written);
            let state = OrderState::default().with(order, written);
            pause(&state, DIRECTORY, &domains, &renewal, now).is_some()
        };
        assert!(is_paused(now));
        assert!(!is_paused(now.plus(Duration::from_secs(365 * DAY))));
    }

    // Shows (Commands and configuration).
    #[test]
    fn settings_that_differ_have_pauses_of_their_own_which_end_when_they_are_long_over() {
        let now = Time::from_secs(1_000_000);
        let ours = names(&["a.example"]);
        let others = names(&["b.example"]);
        let mut state = OrderState::default();
        for domains in [&ours, &others, &ours] {
            let order = done(begun(&state, DIRECTORY, domains, now, 0), now);
            state = state.with(order, now);
        }
        for domains in [&ours, &others] {
            let reason = OrderReason::OtherNames(domains[0].clone());
            let next = pause(&state, DIRECTORY, domains, &reason, now);
            assert_eq!(next, Some(now.plus(AFTER_LOSS)), "{domains:?}");
        }
        assert_eq!(state.others.len(), 1);
        let later = now.plus(Duration::from_secs(3 * DAY));
        let order = begun(&state, DIRECTORY, &ours, later, 0);
        assert!(state.with(order, later).others.is_empty());
    }

    #[test]
    fn a_certificate_is_renewed_when_two_thirds_of_its_life_are_over() {
        let valid = Time::from_secs(0)..Time::from_secs(90 * DAY);
        let moments: Vec<u64> = (0..64_u8).map(|content| renewal(&valid, &[content]).secs() / DAY).collect();
        assert!(moments.iter().all(|day| (60..=63).contains(day)), "{moments:?}");
        assert!([60, 62].iter().all(|day| moments.contains(day)), "they are spread: {moments:?}");
        assert_eq!(renewal(&valid, &[7]), renewal(&valid, &[7]), "a restart decides the same");
    }

    #[test]
    fn a_certificate_for_missing_names_or_of_another_authority_is_ordered_at_once() {
        let now = Time::from_secs(1_798_718_400);
        let held = |domains: &[&str], from: i32, until: i32| {
            Ok(HeldCertificate::of(&super::super::held::tests::pem(domains, from, until)).unwrap())
        };
        let state = |signed_by: Option<&str>| OrderState {
            signed_by: signed_by.map(str::to_owned),
            ..OrderState::default()
        };
        let wanted = names(&["a.example", "b.example"]);
        let why = |held: &Result<HeldCertificate, String>, state: &OrderState| {
            reason(held, state, DIRECTORY, &wanted, now)
        };
        let good = held(&["a.example", "b.example"], 2026, 2030);
        assert_eq!(why(&good, &state(None)), None);
        assert_eq!(why(&good, &state(Some(DIRECTORY))), None);
        let other = "https://staging.example";
        assert_eq!(why(&good, &state(Some(other))), Some(OrderReason::OtherAuthority(other.into())));
        assert_eq!(
            why(&held(&["a.example"], 2026, 2030), &state(None)),
            Some(OrderReason::OtherNames("b.example".into()))
        );
        assert_eq!(why(&Err("gone".into()), &state(None)), Some(OrderReason::Unusable("gone".into())));
        for (from, until) in [(2024, 2028), (2020, 2025)] {
            let old = why(&held(&["a.example", "b.example"], from, until), &state(None));
            assert!(matches!(old, Some(OrderReason::Renewal(_))), "{from}: {old:?}");
        }
    }
}
