use super::*;
use crate::testing::TestDatabase;
use crate::{User, UserId};
use proptest::prelude::*;
use rpcgate_core::clock::Time;
use rpcgate_core::plan::Tier;
use std::time::Duration;

const NOW: Time = Time::from_secs(1_800_000_000);

/// A database with a tenant for each name, whose identifiers begin with their number, from 1 on.
async fn open(site: &TestDatabase, names: &[&str]) -> Store {
    let store = site.store_within(Duration::from_secs(60)).await.unwrap();
    for (number, name) in names.iter().enumerate() {
        let tenant = Tenant::new(
            id(number as u128 + 1),
            *name,
            if number % 2 == 0 { Tier::Standard } else { Tier::Premium },
            NOW,
        );
        store.create_tenant(&tenant).await.unwrap();
    }
    store
}

/// `0000000n-abcd-0000-0000-000000000000`.
fn id(number: u128) -> TenantId {
    TenantId(number << 96 | 0xabcd << 80)
}

async fn found(store: &Store, text: &str) -> Vec<u128> {
    let found = store.search_tenants(text, TenantFilter::default(), None, 50).await.unwrap();
    assert_eq!(found.next, None, "{text}");
    found.tenants.iter().map(|tenant| tenant.id.0 >> 96).collect()
}

// Shows (Management): Operators find tenants by a part of the name, an owner's address or the beginning of the
// identifier, in upper or lower case, in pages of bounded size.
#[tokio::test]
async fn a_part_of_a_name_is_found_in_any_case_and_wildcards_are_letters() {
    let site = TestDatabase::of(module_path!());
    let names =
        ["Acme", "acme GmbH", "Örtliche Bank", "ÄRZTE AG", "100% Nodes", "under_score", "back\\slash"];
    let store = open(&site, &names).await;
    for (text, expected) in [
        ("acme", vec![1, 2]),
        ("ACM", vec![1, 2]),
        ("me g", vec![2]),
        ("bank", vec![3]),
        ("Örtliche", vec![3]),
        ("örtliche b", vec![3]),
        ("ÖRTLICHE", vec![3]),
        ("ärzte", vec![4]),
        ("%", vec![5]),
        ("0%", vec![5]),
        ("1%s", vec![]),
        ("_", vec![6]),
        ("r_s", vec![6]),
        ("a_me", vec![]),
        ("\\", vec![7]),
        ("k\\s", vec![7]),
        ("'; DROP TABLE tenants; --", vec![]),
        ("nobody", vec![]),
    ] {
        assert_eq!(found(&store, text).await, expected, "{text}");
    }
}

// Shows (Management).
#[tokio::test]
async fn an_owners_address_finds_its_tenant_in_any_case() {
    let site = TestDatabase::of(module_path!());
    let store = open(&site, &["First", "Second", "mail@home"]).await;
    let user = |user, tenant: Option<u128>, email: &str, role| User {
        id: UserId(user),
        tenant: tenant.map(id),
        email: email.to_owned(),
        name: String::new(),
        role,
        password: None,
        confirmed_at: Some(NOW),
        created_at: NOW,
    };
    for one in [
        user(1, Some(2), "Owner@Example.com", Role::Owner),
        user(2, Some(1), "developer@example.com", Role::Developer),
        user(3, None, "operator@example.com", Role::Viewer),
    ] {
        store.create_user(&one).await.unwrap();
    }
    for text in ["owner@example.com", "OWNER@example.COM"] {
        assert_eq!(found(&store, text).await, [2], "{text}");
    }
    for text in ["developer@example.com", "operator@example.com", "owner@example.co", "%@example.com"] {
        assert!(found(&store, text).await.is_empty(), "{text}");
    }
    assert_eq!(found(&store, "il@ho").await, [3], "a name may have an @");
    store.delete_tenant(id(2), NOW).await.unwrap();
    assert!(found(&store, "owner@example.com").await.is_empty());
}

// Shows (Management).
#[tokio::test]
async fn the_beginning_of_an_identifier_is_found_with_or_without_hyphens() {
    let site = TestDatabase::of(module_path!());
    let store = open(&site, &["First", "Second", "deadbeef Ltd"]).await;
    for text in ["00000002", "00000002-abcd", "00000002ABCD", "00000002-ABCD-0000-0000-000000000000"] {
        assert_eq!(found(&store, text).await, [2], "{text}");
    }
    assert_eq!(found(&store, "deadbeef").await, [3], "no identifier begins so");
    for text in ["0000000", "00000009", "00000002-abcd-0000-0000-0000000000000", "0000000g"] {
        assert!(found(&store, text).await.is_empty(), "{text}");
    }
}

#[tokio::test]
async fn search_results_are_paged_and_filtered() {
    let site = TestDatabase::of(module_path!());
    let store = open(&site, &["Bank 1", "Bank 2", "Other", "Bank 4", "Bank 5"]).await;
    let part = async |text: &str, filter, after: Option<u128>, limit| {
        let found = store.search_tenants(text, filter, after.map(id), limit).await.unwrap();
        let ids: Vec<_> = found.tenants.iter().map(|tenant| tenant.id.0 >> 96).collect();
        (ids, found.next.map(|next| next.0 >> 96))
    };
    let all = TenantFilter::default();
    assert_eq!(part("bank", all, None, 2).await, (vec![1, 2], Some(2)));
    assert_eq!(part("bank", all, Some(2), 2).await, (vec![4, 5], None));
    assert_eq!(part("bank", all, Some(5), 2).await, (vec![], None));
    let premium = TenantFilter { plan: Some(Tier::Premium.into()), suspended: Some(false) };
    assert_eq!(part("bank", premium, None, 9).await, (vec![2, 4], None));
    assert_eq!(part("00000002", premium, None, 9).await, (vec![2], None));
    assert_eq!(part("00000001", premium, None, 9).await, (vec![], None), "it is on another plan");
    let suspended = TenantFilter { suspended: Some(true), ..all };
    assert_eq!(part("bank", suspended, None, 9).await, (vec![], None));
}

// Shows (Management).
#[tokio::test]
async fn a_search_stops_after_a_bounded_number_of_names_and_returns_a_cursor() {
    let site = TestDatabase::of(module_path!());
    let store = open(&site, &["a", "b", "c", "target", "e"]).await;
    let mut after = None;
    let mut parts = Vec::new();
    loop {
        let part = store.search_some("target", TenantFilter::default(), (after, 9), 2).await.unwrap();
        parts.push(part.tenants.len());
        after = part.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(parts, [0, 1, 0], "two names are compared in each call");
    let direct = store.search_some("00000005", TenantFilter::default(), (None, 9), 2).await.unwrap();
    assert_eq!(
        (direct.tenants.len(), direct.next),
        (1, None),
        "an identifier is not searched for among names"
    );
}

proptest! {
    #[test]
    fn an_identifier_begins_with_each_of_its_beginnings(number: u128, digits in MIN_DIGITS..=DIGITS) {
        let text = TenantId(number).to_string();
        let beginning: String = text.chars().scan(0, |count, c| {
            *count += usize::from(c != '-');
            (*count <= digits).then_some(c)
        }).collect();
        prop_assert!(identifiers(&beginning).unwrap().contains(&number));
        prop_assert!(identifiers(&beginning.to_uppercase()).unwrap().contains(&number));
    }

    #[test]
    fn no_text_breaks_a_pattern(text in "\\PC*") {
        let _ = (identifiers(&text), is_named(&text));
    }
}
