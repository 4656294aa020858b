//! How do I use a layer over request and response types of my own?
//!
//! A library prints reports. [`Order`] and [`Slip`] are plain structs, and no HTTP is involved. Two small traits connect
//! them to the layers: [`RejectWith`] defines the response to a refused order, and [`SetRateLimit`] the place of the
//! windows' state in a slip, which `rpcgate_layers::headers::write_rates` turns into HTTP headers. The content of an
//! order decides whether it is heavy.
//!
//! Run it with `cargo run -p rpcgate-examples --example own_types`.
#![expect(clippy::print_stdout, reason = "it prints the slips")]

use rpcgate_core::prelude::*;
use rpcgate_layers::prelude::*;
use std::{convert::Infallible, sync::Arc};
use tower::{Layer, Service, ServiceExt, service_fn};

/// An order of a report: its user, its year, and whether to print page by page, which is expensive.
struct Order(Arc<Caller>, u16, bool);

/// The response to an order: a text, the seconds to wait after a refusal, and the state of the windows.
struct Slip(String, Option<u64>, Option<Windows>);

impl RejectWith<Slip> for Order {
    fn refuse(self, refusal: Refusal) -> Slip {
        // The refusal can name the year, because it is created from the order.
        Slip(format!("No report of {} now: {refusal}.", self.1), refusal.retry_after(), None)
    }
}

impl SetRateLimit for Slip {
    fn rate(&mut self, windows: &Windows) {
        self.2 = Some(*windows);
    }
}

fn press(clock: Arc<dyn Clock>) -> impl Service<Order, Response = Slip, Error = Infallible> + Clone {
    let windows = WindowLayer::new(Arc::new(MemoryCounters::default()))
        .with_caller(clock.clone(), |order: &Order| Some((&order.0).into()));
    let heavy = HeavyLayer::new().with_call(clock, |Order(user, _, is_full): &Order| {
        let rule = MethodRule::UNLISTED.marked(if *is_full { Flags::HEAVY } else { Flags::NONE });
        Some((user.into(), CallView::new(ChainName::new("library"), "report", rule)))
    });
    let print = async |order: Order| Ok::<_, Infallible>(Slip(format!("Report of {}", order.1), None, None));
    (windows, heavy).layer(service_fn(print))
}

#[tokio::main]
async fn main() -> Result<(), Infallible> {
    let press = press(Arc::new(SystemClock::new()));
    let ann = Arc::new(Caller::of(1, Plan::of(Tier::Free)));
    for year in 1990..2001 {
        let Slip(text, wait, _) = press.clone().oneshot(Order(ann.clone(), year, year < 1997)).await?;
        println!("{text} {}", wait.map(|seconds| format!("Retry after {seconds} s.")).unwrap_or_default());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_seventh_full_report_and_an_eleventh_report_are_refused_in_the_orders_own_words() {
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_020)));
        let press = press(clock.clone());
        let ann = Caller::of(1, Plan::of(Tier::Free));
        let ben = Caller::of(2, Plan::of(Tier::Premium));
        let ann = Arc::new(ann);
        let ben = Arc::new(ben);
        let order = async |user: &Arc<Caller>, is_full| {
            let Ok(Slip(text, wait, windows)) =
                press.clone().oneshot(Order(user.clone(), 1999, is_full)).await;
            (text, wait, windows.map(|windows| windows.minute.remaining))
        };
        for left in (4..10).rev() {
            assert_eq!(order(&ann, true).await, ("Report of 1999".into(), None, Some(left)));
        }
        let (text, retry_after, left) = order(&ann, true).await;
        assert!(text.starts_with("No report of 1999 now: "), "{text}");
        assert_eq!((retry_after, left), (Some(40), Some(3)));
        for left in (0..3).rev() {
            assert_eq!(
                order(&ann, false).await,
                ("Report of 1999".into(), None, Some(left)),
                "it is not heavy"
            );
        }
        let (text, retry_after, left) = order(&ann, false).await;
        assert!(text.starts_with("No report of 1999 now: "), "{text}");
        assert_eq!((retry_after, left), (Some(40), Some(0)));
        assert_eq!(order(&ben, true).await.2, Some(99), "another user's budget and windows");
        clock.advance(Duration::from_secs(40));
        assert_eq!(order(&ann, true).await.2, Some(9), "the next minute");
    }
}
