use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;

fn canonical(_: &str, key: &str, value: &str) -> Option<String> {
    match key {
        "address" if value == "none" => None,
        "address" => Some(value.to_lowercase()),
        _ => Some(value.to_owned()),
    }
}

fn filter(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other} is no object"),
    }
}

fn block() -> BlockRef {
    BlockRef::new(5, "h5", "h4", 77)
}

/// The matching rule, member by member.
fn is_matched(subscription: &IndexedSubscription, chain: &str, block: &BlockRef, event: &ChainEvent) -> bool {
    let outer = filter(json!({
        "chain": chain, "event_type": event.kind.name(), "block_num": block.height,
        "block_hash": block.hash, "timestamp": block.timestamp,
    }));
    let is_met = |(key, filter): (&String, &Value)| {
        let filter = match filter {
            Value::String(text) => canonical(chain, key, text).map(Value::String),
            other => Some(other.clone()),
        };
        filter.is_some() && event.data.get(key).or(outer.get(key)) == filter.as_ref()
    };
    subscription.chain == chain
        && subscription.kind == event.kind
        && subscription.filter.iter().flatten().all(is_met)
}

fn found(index: &SubscriptionIndex, chain: &str, event: &ChainEvent) -> Vec<u128> {
    let mut found: Vec<_> =
        index.matches(chain, &block(), event).iter().map(|found| found.subscription).collect();
    found.sort_unstable();
    found
}

fn subscribed(filters: &[Value]) -> SubscriptionIndex {
    let index = SubscriptionIndex::default();
    for (id, value) in (1..).zip(filters) {
        let subscription =
            IndexedSubscription::new(id, "eth", EventType::TokenTransfer).of_webhook(id, id % 2);
        index.insert(&subscription.with_filter(filter(value.clone())), canonical);
    }
    index
}

// Shows (Webhook event types).
#[test]
fn a_number_and_a_text_differ_and_the_inner_member_hides_the_outer_one() {
    let index = subscribed(&[
        json!({"value": 5}),
        json!({"value": "5"}),
        json!({"block_num": 5}),
        json!({"block_num": "5"}),
        json!({"chain": "eth", "event_type": "token_transfer", "timestamp": 77, "block_hash": "h5"}),
        json!({"other": null}),
        json!({"flag": true}),
    ]);
    let event = ChainEvent::new(EventType::TokenTransfer).with("value", 5).with("flag", true);
    assert_eq!(found(&index, "eth", &event), [1, 3, 5, 7]);
    let event = ChainEvent::new(EventType::TokenTransfer).with("value", "5").with("other", Value::Null);
    assert_eq!(found(&index, "eth", &event.with("block_num", "5")), [2, 4, 5, 6]);
    assert_eq!(found(&index, "bsc", &ChainEvent::new(EventType::TokenTransfer)), [0; 0]);
    assert_eq!(found(&index, "eth", &ChainEvent::new(EventType::NewBlock)), [0; 0]);
}

// Shows (Webhook event types).
#[test]
fn a_filter_in_another_spelling_matches_and_an_impossible_one_is_not_wanted() {
    let index = SubscriptionIndex::default();
    let subscription = |id, address: &str| {
        IndexedSubscription::new(id, "eth", EventType::AddressActivity)
            .of_webhook(9, 9)
            .with_filter(filter(json!({"direction": "in", "address": address})))
    };
    index.insert(&subscription(1, "none"), canonical);
    assert_eq!((index.len(), index.chains().len()), (1, 0));
    assert!(!index.wants("eth", EventType::AddressActivity));
    index.insert(&subscription(2, "0xAB"), canonical);
    let event = ChainEvent::new(EventType::AddressActivity).with("address", "0xab").with("direction", "in");
    assert_eq!(found(&index, "eth", &event), [2]);
    assert_eq!(found(&index, "eth", &event.with("direction", "out")), [0; 0]);
    let of_chain = index.filter("eth");
    assert!(of_chain.watches("0xab") && !of_chain.watches("0xac") && !of_chain.wants(EventType::NewBlock));
    index.insert(&subscription(3, "0xac"), canonical);
    assert!(of_chain.watches("0xac"), "addresses are those of the moment");
    let any = IndexedSubscription::new(4, "eth", EventType::AddressActivity)
        .with_filter(filter(json!({"direction": "in"})));
    index.insert(&any, canonical);
    assert!(index.filter("eth").watches("0xanything"));
    assert!(index.remove(4) && !index.remove(4));
    assert!(!index.filter("eth").watches("0xanything"));
}

// Shows (Webhook event types).
#[test]
fn subscriptions_that_share_all_but_one_value_are_not_found_together() {
    let shared = json!({"address": "0xa", "token": "t", "direction": "in", "topic0": "transfer"});
    let filters = (0..500).map(|number| {
        let mut one = shared.clone();
        one["to"] = number.to_string().into();
        one
    });
    let index = subscribed(&filters.collect::<Vec<_>>());
    assert!(index.table.read().most_together() <= 2);
    let mut event = ChainEvent::new(EventType::TokenTransfer);
    event.data = filter(shared);
    assert_eq!(found(&index, "eth", &event.clone().with("to", "77")), [78]);
    assert_eq!(found(&index, "eth", &event), [0; 0]);
    index.retain(|id| id == 78);
    assert_eq!(index.table.read().most_together(), 1);
    assert!(index.remove(78));
    assert_eq!((index.table.read().most_together(), index.is_empty()), (0, true));
}

#[test]
fn a_project_is_replaced_as_a_whole_and_others_stay() {
    let index = subscribed(&[json!({}), json!({"value": 1}), json!({}), json!({"value": 1})]);
    let event = ChainEvent::new(EventType::TokenTransfer).with("value", 1);
    assert_eq!(found(&index, "eth", &event), [1, 2, 3, 4]);
    let new = IndexedSubscription::new(9, "eth", EventType::TokenTransfer).of_webhook(8, 1);
    index.replace_project(1, std::slice::from_ref(&new), canonical);
    assert_eq!(found(&index, "eth", &event), [2, 4, 9]);
    index.replace_project(0, &[], canonical);
    assert_eq!((found(&index, "eth", &event), index.len()), (vec![9], 1));
    index.replace_project(1, &[], canonical);
    assert!(index.is_empty() && index.chains().is_empty());
}

#[derive(Clone, Debug)]
enum Step {
    Insert(IndexedSubscription),
    Remove(u128),
    Replace(u128, Vec<IndexedSubscription>),
    Retain(u32),
    Clear,
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        prop::sample::select(vec!["a", "A", "b", "5", "none", "eth", "h5"]).prop_map(Value::from),
        (0..3_i64).prop_map(|number| Value::from(number * 5)),
        any::<bool>().prop_map(Value::from),
        Just(Value::Null),
    ]
}

fn data() -> impl Strategy<Value = Map<String, Value>> {
    let key = prop::sample::select(vec![
        "address",
        "token",
        "contract",
        "value",
        "block_num",
        "chain",
        "timestamp",
        "from",
    ]);
    prop::collection::vec((key, value()), 0..4)
        .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn kind() -> impl Strategy<Value = EventType> {
    prop::sample::select(vec![EventType::TokenTransfer, EventType::AddressActivity])
}

fn subscription() -> impl Strategy<Value = IndexedSubscription> {
    let chain = prop::sample::select(vec!["eth", "bsc"]);
    (0..12_u128, 0..5_u128, chain, kind(), prop::option::of(data()), 0..3_u32).prop_map(
        |(id, webhook, chain, kind, filter, confirmations)| IndexedSubscription {
            filter,
            confirmations,
            ..IndexedSubscription::new(id, chain, kind).of_webhook(webhook, webhook % 3)
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => subscription().prop_map(Step::Insert),
        3 => (0..12_u128).prop_map(Step::Remove),
        2 => (0..3_u128, prop::collection::vec(subscription(), 0..4)).prop_map(|(project, all)| {
            let own = |one: IndexedSubscription| IndexedSubscription { webhook: one.webhook / 3 * 3 + project, project, ..one };
            Step::Replace(project, all.into_iter().map(own).collect())
        }),
        1 => any::<u32>().prop_map(Step::Retain),
        1 => Just(Step::Clear),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    // Shows (Webhook event types): An event matches if every filter key equals the same-named key of the event,
    // compared in the chain's own way.
    #[test]
    fn the_index_matches_the_rule_after_any_changes(
        steps in prop::collection::vec(step(), 1..40),
        events in prop::collection::vec((kind(), data()), 1..6),
    ) {
        let index = SubscriptionIndex::default();
        let mut model = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(new) => {
                    index.insert(&new, canonical);
                    model.insert(new.id, new);
                }
                Step::Remove(id) => prop_assert_eq!(index.remove(id), model.remove(&id).is_some()),
                Step::Replace(project, all) => {
                    index.replace_project(project, &all, canonical);
                    model.retain(|_, one| one.project != project);
                    model.extend(all.into_iter().map(|one| (one.id, one)));
                }
                Step::Retain(bits) => {
                    index.retain(|id| bits >> id & 1 == 1);
                    model.retain(|id, _| bits >> id & 1 == 1);
                }
                Step::Clear => {
                    index.clear();
                    model.clear();
                }
            }
            prop_assert_eq!(index.len(), model.len());
        }
        for (chain, (kind, data)) in ["eth", "bsc"].into_iter().flat_map(|chain| events.iter().map(move |event| (chain, event))) {
            let event = ChainEvent { kind: *kind, data: data.clone() };
            let mut found = index.matches(chain, &block(), &event);
            found.sort_unstable();
            let expected = model.values().filter(|one| is_matched(one, chain, &block(), &event));
            let expected: Vec<_> = expected.map(|one| SubscriptionMatch {
                subscription: one.id, webhook: one.webhook, project: one.project, confirmations: one.confirmations,
            }).collect();
            prop_assert_eq!(found, expected);
            let can_match = |one: &&IndexedSubscription| {
                let mut texts = one.filter.iter().flatten().filter_map(|(key, value)| Some((key, value.as_str()?)));
                one.chain == chain && one.kind == *kind
                    && texts.all(|(key, text)| canonical(chain, key, text).is_some())
            };
            let filter = model.values().filter(can_match).collect::<Vec<_>>();
            prop_assert_eq!(index.wants(chain, *kind), !filter.is_empty());
            if *kind == EventType::AddressActivity {
                for address in ["a", "b", "c"] {
                    let has = |one: &&IndexedSubscription| match one.filter.as_ref().and_then(|filter| filter.get("address")) {
                        None => true,
                        Some(Value::String(text)) => text.to_lowercase() == address,
                        Some(_) => false,
                    };
                    prop_assert_eq!(index.filter(chain).watches(address), filter.iter().any(has));
                }
            }
        }
    }
}
