use super::*;

#[tokio::test]
async fn tenants_and_projects_are_found_by_their_exact_names() {
    let (_dir, store) = seeded().await;
    let names = async |name| {
        let found = store.tenants_named(name, 9).await.unwrap();
        found.into_iter().map(|tenant| tenant.id).collect::<Vec<_>>()
    };
    assert_eq!(names("Örtliche Bank").await, [TENANT, OTHER]);
    assert_eq!(store.tenants_named("Örtliche Bank", 1).await.unwrap(), [tenant(TENANT)]);
    for other in ["Örtliche", "Örtliche Bank ", "%", ""] {
        assert_eq!(names(other).await, [], "{other}");
    }
    let second = Project { id: ProjectId(44), tenant: OTHER, ..project(PROJECT) };
    store.create_project(&second).await.unwrap();
    let ids = async |tenant, name| {
        let found = store.projects_named(tenant, name, 9).await.unwrap();
        found.into_iter().map(|project| project.id).collect::<Vec<_>>()
    };
    assert_eq!(ids(None, "first").await, [PROJECT, ProjectId(44)]);
    assert_eq!(ids(Some(OTHER), "first").await, [ProjectId(44)]);
    assert_eq!(store.projects_named(None, "first", 1).await.unwrap(), [project(PROJECT)]);
    store.delete_project(TENANT, PROJECT, now()).await.unwrap();
    assert_eq!(ids(None, "first").await, [ProjectId(44)]);
}

#[tokio::test]
async fn keys_of_any_tenant_are_found_by_identifier_and_by_prefix() {
    let (_dir, store) = seeded().await;
    let stored = key(KEY, hash());
    assert_eq!(store.any_key(KEY).await.unwrap(), Some((TENANT, stored.clone())));
    assert_eq!(store.any_key(KeyId(77)).await.unwrap(), None);
    assert_eq!(store.keys_with_prefix("rpcg_0123456", 9).await.unwrap(), [(TENANT, stored.clone())]);
    assert_eq!(store.keys_with_prefix("rpcg_012345", 9).await.unwrap(), []);
    store.create_key(&key(KeyId(6), KeyHash::of("another")), now()).await.unwrap();
    let both = store.keys_with_prefix("rpcg_0123456", 9).await.unwrap();
    assert_eq!(both.into_iter().map(|(_, key)| key.id).collect::<Vec<_>>(), [KEY, KeyId(6)]);
    assert_eq!(store.keys_with_prefix("rpcg_0123456", 1).await.unwrap(), [(TENANT, stored)]);
}
