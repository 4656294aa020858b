//! How do I charge and record calls of my own types?
//!
//! A program draws maps for its customers. It does not use HTTP here: [`Order`] and [`Map`] are plain types. It uses
//! `QuotaLayer` of rpcgate: a customer has a number of Compute Units in 24 hours, the cost of a map depends on its
//! size, a map that could not be drawn costs nothing, and every order creates a record for the invoices.
//!
//! Run it with `cargo run -p rpcgate-examples --example quota_alone`.
#![expect(clippy::print_stdout, reason = "it prints the charges")]

use rpcgate_core::prelude::*;
use rpcgate_layers::prelude::*;
use std::{convert::Infallible, sync::Arc};
use tower::{Layer, Service, ServiceExt, service_fn};

/// An order of a map, with the length of an edge in pixels.
struct Order(Arc<Caller>, u32);

/// A drawn map, or the reason why the library did not draw it.
type Map = Result<u32, String>;

/// Returns a customer with 100 Compute Units a day.
fn customer(number: u128) -> Arc<Caller> {
    let mut caller = Caller::of(number, Plan::of(Tier::Standard));
    caller.quota.cu_per_day = 100;
    Arc::new(caller)
}

/// Returns the customer and the cost: a Compute Unit for every ten pixels of an edge.
fn price(Order(customer, size): &Order) -> Option<(CallerRef<'_>, CallView<'_>)> {
    Some((customer.into(), CallView::new(ChainName::new("maps"), "draw", MethodRule::new(size / 10))))
}

async fn draw(Order(_, size): Order) -> Result<Map, Infallible> {
    Ok(if size > 5_000 { Err("too large".into()) } else { Ok(size) })
}

fn maps(
    clock: Arc<dyn Clock>,
    sink: Arc<dyn UsageSink>,
) -> impl Service<Order, Response = Map, Error = Infallible> + Clone {
    let quota = QuotaLayer::new(Arc::new(MemoryCounters::default())).with_call(clock, price);
    let charging = quota.recording(sink).charging_if(|map: &Map| map.is_ok());
    let refusing =
        charging.refusing(|Order(_, size), why: Refusal| Map::Err(format!("no map of {size}: {why}")));
    refusing.layer(service_fn(draw))
}

#[tokio::main]
async fn main() -> Result<(), Infallible> {
    let sink = Arc::new(MemoryUsageSink::default());
    let maps = maps(Arc::new(SystemClock::new()), sink.clone());
    let ann = customer(1);
    for size in [400, 6_000, 600, 10] {
        println!("{size:>5} pixels: {:?}", maps.clone().oneshot(Order(ann.clone(), size)).await?);
    }
    sink.records().iter().for_each(|record| println!("{:?}", record.lines));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rpcgate_core::backend::usage_sink::Outcome;
    use std::time::Duration;

    #[tokio::test]
    async fn only_drawn_maps_are_charged_and_every_order_leaves_a_record() {
        let sink = Arc::new(MemoryUsageSink::default());
        let clock = Arc::new(ManualClock::at(Time::from_secs(1_800_000_000)));
        let maps = maps(clock.clone(), sink.clone());
        let ann = customer(1);
        let ben = customer(2);
        let order = async |customer: &Arc<Caller>, size| {
            let Ok(map) = maps.clone().oneshot(Order(customer.clone(), size)).await;
            map
        };
        assert_eq!(order(&ann, 400).await, Map::Ok(400));
        assert_eq!(order(&ann, 6_000).await, Map::Err("too large".into()));
        assert_eq!(order(&ann, 700).await, Map::Ok(700), "the call that reaches the ceiling is served");
        assert_eq!(order(&ann, 10).await, Map::Err("no map of 10: compute unit quota exceeded".into()));
        assert_eq!(order(&ben, 10).await, Map::Ok(10), "another customer has a quota of its own");
        let charged: Vec<_> =
            sink.records().iter().map(|record| (record.lines[0].cu, record.lines[0].outcome)).collect();
        assert_eq!(
            (charged[0], charged[2], charged[4]),
            ((40, Outcome::Answered), (70, Outcome::Answered), (1, Outcome::Answered))
        );
        assert_eq!((charged[1].0, charged[3]), (0, (0, Outcome::Refused)));
        clock.advance(Duration::from_secs(25 * 3_600));
        assert_eq!(order(&ann, 10).await, Map::Ok(10), "a day later the units are free again");
    }
}
