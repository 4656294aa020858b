use crate::*;
use rpcgate_layers::redis::SharedNodeMonths;

/// Reports a gateway's calls to one node in one month and returns those of the other gateways.
async fn others(gateway: &mut SharedNodeMonths, own: u64) -> u64 {
    let exchanged = gateway.exchange(&[("2026-11:eth:http://a".into(), own)]).await;
    exchanged.unwrap()[0]
}

// Shows (Nodes and cache): Gateways with Redis count the calls of a month together, also after Redis has lost them.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn gateways_know_what_the_others_have_sent_to_a_node_also_after_redis_has_lost_it() {
    let redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let gateway = |name| SharedNodeMonths::new(&settings, name).unwrap();
    let mut one = gateway("one");
    let mut two = gateway("two");
    assert_eq!((others(&mut one, 5).await, others(&mut two, 7).await), (0, 5));
    assert_eq!(
        (others(&mut one, 6).await, others(&mut one, 6).await),
        (7, 7),
        "what is said twice counts once"
    );
    let names = ["2026-11:eth:http://a".to_owned(), "2026-12:eth:http://a".to_owned()];
    assert_eq!(gateway("one").former(&names).await, Ok(vec![6, 0]), "after a restart");
    let mut other_prefix =
        SharedNodeMonths::new(&RedisSettings { prefix: prefix(), ..settings.clone() }, "one").unwrap();
    assert_eq!(others(&mut other_prefix, 1).await, 0);
    redis.say("FLUSHALL");
    assert_eq!((others(&mut one, 8).await, others(&mut two, 7).await, others(&mut one, 8).await), (0, 8, 7));
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn many_nodes_are_asked_for_at_once_and_a_redis_that_was_gone_is_found_again() {
    let mut redis = RedisServer::start();
    let settings = settings(&redis, &prefix(), LONG);
    let mut one = SharedNodeMonths::new(&settings, "one").unwrap();
    let mut two = SharedNodeMonths::new(&settings, "two").unwrap();
    let own: Vec<(String, u64)> = (0..600).map(|node| (format!("2026-11:eth:{node}"), node)).collect();
    assert_eq!(one.exchange(&own).await, Ok(vec![0; 600]));
    assert_eq!(two.exchange(&own).await, Ok((0..600).collect()));
    redis.kill();
    assert!(one.exchange(&own).await.is_err());
    redis.revive();
    let again = async {
        while one.exchange(&own).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    timeout(Duration::from_secs(60), again).await.unwrap();
}

// Shows (Nodes and cache): Redis keeps few numbers of a month, and their sum, for any number of gateways that start and
// stop.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(have_redis), ignore = "needs redis-server (apt install redis-server)")]
async fn calls_of_long_gone_gateways_stay_counted_in_one_number() {
    const NODE: &str = "2026-11:eth:http://a";
    let redis = RedisServer::start();
    let prefix = prefix();
    let settings = settings(&redis, &prefix, LONG);
    let gateway = |name: &str| SharedNodeMonths::new(&settings, name).unwrap();
    let calls = format!("{prefix}node-month:{NODE}");
    let seen = format!("{prefix}node-month-seen:{NODE}");
    let size = |command: &str, key: &str| redis.say(&format!("{command} {key}"));
    for number in 0..100 {
        assert_eq!(others(&mut gateway(&format!("g{number}")), 7).await, 7 * number);
    }
    // All have just sent a report, so none is considered gone.
    assert_eq!((size("HLEN", &calls), size("ZCARD", &seen)), (":100\r\n".into(), ":100\r\n".into()));
    for number in 0..50 {
        redis.say(&format!("ZINCRBY {seen} -{} g{number}", 3_700 - number));
    }
    let mut last = gateway("last");
    assert_eq!(others(&mut last, 1).await, 700);
    // Of 101, the 37 that have been silent for longest are summed up.
    assert_eq!((size("HLEN", &calls), size("ZCARD", &seen)), (":65\r\n".into(), ":64\r\n".into()));
    assert_eq!(redis.say(&format!("HGET {calls} gone")), "$3\r\n259\r\n");
    let of = |number: u64| size(&format!("HEXISTS {calls}"), &format!("g{number}"));
    assert_eq!((of(36), of(37)), (":0\r\n".into(), ":1\r\n".into()));
    assert_eq!(others(&mut last, 2).await, 700, "and nothing twice");
    assert_eq!(others(&mut gateway("g60"), 8).await, 695, "the others, of which one has sent 2");
    assert_eq!(others(&mut gateway("g0"), 7).await, 703, "one that comes back counts twice");
}
