//! The example configuration, `docs/rpcgate.example.toml`: it shows every key with its default.

use rpcgate_config::{Config, Input};
use toml::{Table, Value};

use crate::tree;

const EXAMPLE: &str = "docs/rpcgate.example.toml";
const CHAINS: &[&str] = &["eth", "bsc", "btc"];

fn input(text: &str) -> Input<'_> {
    Input {
        chains: CHAINS,
        aliases: &[("ethereum", "eth")],
        file: Some(("example.toml", text)),
        ..Input::default()
    }
}

fn read(text: &str) -> Config {
    Config::read(&input(text)).unwrap_or_else(|errors| panic!("{errors}"))
}

/// Returns the example without the comment marks before keys and headers: all of them, or only those that are not
/// marked as examples.
fn uncommented(examples: bool) -> String {
    let line = |line: &str| {
        let Some(bare) = line.strip_prefix("# ") else {
            return line.to_owned();
        };
        let is_key =
            bare.split_once(" = ").is_some_and(|(key, _)| !key.is_empty() && !key.contains([' ', ':']));
        let is_line = is_key || bare.starts_with('[');
        let taken = is_line && (examples || !bare.trim_end().ends_with("# example"));
        if taken { bare.to_owned() } else { line.to_owned() }
    };
    tree::read(EXAMPLE).lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the configuration of the example with all its lines.
fn whole_example() -> Config {
    let env = [
        "KEY_SECRET",
        "FORMER_KEY_SECRET",
        "CHALLENGE_SECRET",
        "NODE_TOKEN",
        "OTLP_TOKEN",
        "BACKEND_KEY",
        "STRIPE_SECRET_KEY",
        "STRIPE_WEBHOOK_SECRET",
    ];
    let env = env.map(|name| (name.to_owned(), "sixteen-bytes-or-more".to_owned()));
    let files = |_: &str| Ok("thirty-two-bytes-and-some-more-of-them".to_owned());
    let text = uncommented(true);
    Config::read(&Input { env: &env, secret_file: &files, ..input(&text) })
        .unwrap_or_else(|errors| panic!("{errors}"))
}

/// Returns the path of every key below `table`, with `0` for an element of a list.
fn paths(table: &Table, above: &str, out: &mut Vec<String>) {
    for (key, value) in table {
        let path = format!("{above}{key}");
        match value {
            Value::Table(inner) => paths(inner, &format!("{path}."), out),
            Value::Array(list) => {
                for inner in list.iter().filter_map(Value::as_table) {
                    paths(inner, &format!("{path}.0."), out);
                }
            }
            _ => {}
        }
        out.push(path);
    }
}

// Shows (Usage): Rollups are kept 400 days, single requests 90.
// Shows (Accounts and second factors): Access tokens live 15 minutes.
#[test]
fn the_example_shows_the_defaults() {
    assert_eq!(read(&tree::read(EXAMPLE)), read(""), "as the file stands");
    let uncommented = uncommented(false);
    assert_eq!(read(&uncommented), read(""), "with the comment marks off");
    assert!(uncommented.lines().filter(|line| line.contains(" = ") && !line.starts_with('#')).count() > 60);
}

#[test]
fn the_example_shows_every_key() {
    whole_example();
    let mut present = Vec::new();
    paths(&uncommented(true).parse().unwrap(), "", &mut present);
    let is_present = |key: &str| {
        present.iter().any(|path| {
            let (path, key): (Vec<_>, Vec<_>) = (path.split('.').collect(), key.split('.').collect());
            path.len() == key.len() && key.iter().zip(path).all(|(key, part)| *key == "*" || *key == part)
        })
    };
    let known = Config::known_keys();
    assert!(known.len() > 100, "{} keys", known.len());
    let missing: Vec<_> = known.into_iter().filter(|key| !is_present(key)).collect();
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn the_printed_example_has_no_secret_and_reads_back() {
    let config = whole_example();
    let printed = config.to_toml_masked();
    for secret in ["sixteen-bytes", "thirty-two", "password@"] {
        assert!(!printed.contains(secret), "{printed}");
        assert!(!format!("{config:?}").contains(secret), "{config:?}");
    }
    assert!(printed.contains("smtp = \"smtps://user:***@mail.example.com:465\"\n"), "{printed}");
    let given = printed.replace("\"***\"", "\"thirty-two-bytes-and-some-more-of-them\"");
    assert!(Config::read(&input(&given)).is_err(), "a URL with a masked password is refused");
    let given = given.replace("***", "password");
    let again = read(&given);
    assert_eq!(again.to_toml_masked(), printed);
    assert_eq!(again.chains["eth"].nodes[0].url, config.chains["eth"].nodes[0].url);
}
