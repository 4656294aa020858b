//! `compose.yaml` with its balancer, its configuration and its secrets.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use rpcgate_config::Config;
use rpcgate_process::health::ANSWER_WITHIN;
use serde_json::Value;

use super::{
    AFTER_GRACE, CONFIG, SECRET, STATE, USER, documents, duration, effective, entries, image, serves, texts,
    unpinned, version, wrong_command, wrong_configuration,
};
use crate::{none, tree};

const COMPOSE: &str = "compose.yaml";
const BALANCER: &str = "examples/deploy/compose/haproxy.cfg";
const COMPOSE_CONFIG: &str = "examples/deploy/compose/rpcgate.toml";
const SECRETS: &str = "examples/deploy/compose/secrets";

struct Deployment {
    services: BTreeMap<String, Value>,
    mounts: BTreeSet<String>,
    balancer: String,
    config: String,
}

impl Deployment {
    fn new(compose: &str, balancer: &str, config: &str) -> Self {
        let document = documents(compose).remove(0);
        Deployment {
            services: entries(&document["services"])
                .map(|(name, of)| (name.to_owned(), of.clone()))
                .collect(),
            mounts: entries(&document["volumes"]).map(|(name, _)| name.to_owned()).collect(),
            balancer: balancer.to_owned(),
            config: config.to_owned(),
        }
    }

    fn read() -> Self {
        Deployment::new(&tree::read(COMPOSE), &tree::read(BALANCER), &tree::read(COMPOSE_CONFIG))
    }

    /// Returns the services that run one of our programs, each with the program.
    fn programs(&self) -> impl Iterator<Item = (&str, &Value, &str)> {
        self.services.iter().filter_map(|(name, service)| Some((name.as_str(), service, program(service)?)))
    }

    fn configuration(&self, name: &str) -> Result<Config, String> {
        effective(&self.config, &variables(&self.services[name]))
    }
}

/// Returns the program in a service's image: `rpcgate-server` of `rpcgate-server:0.1.0`.
fn program(service: &Value) -> Option<&str> {
    let (name, _) = service["image"].as_str()?.split_once(':')?;
    name.starts_with("rpcgate-").then_some(name)
}

/// Returns the variables of a service, with a secret where `.env` has one.
fn variables(service: &Value) -> Vec<(String, String)> {
    let resolved = |value: &str| {
        let mut text = value.to_owned();
        while let Some((start, length)) = text.find("${").zip(text.find('}')) {
            text.replace_range(start..=length, SECRET);
        }
        text
    };
    entries(&service["environment"])
        .map(|(name, value)| (name.to_owned(), resolved(value.as_str().unwrap_or_default())))
        .collect()
}

/// Returns the volumes of a service, each as source, target, and the remaining words.
fn mounts(service: &Value) -> Vec<(&str, &str, &str)> {
    let mut mounts = Vec::new();
    for text in texts(&service["volumes"]) {
        let (from, rest) = text.split_once(':').unwrap_or((text, ""));
        let (to, mode) = rest.split_once(':').unwrap_or((rest, ""));
        mounts.push((from, to, mode));
    }
    mounts
}

fn rights(service: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    let user = service["user"].as_str().unwrap_or_default();
    let is_numeric = user.split(':').all(|part| part.parse::<u32>().is_ok_and(|id| id > 0));
    if !is_numeric {
        findings.push(format!("user {user:?} may be root"));
    }
    if service["read_only"] != true {
        findings.push("its root can be written".to_owned());
    }
    if texts(&service["cap_drop"]) != ["ALL"]
        || !service["cap_add"].is_null()
        || service["privileged"] == true
    {
        findings.push("it has capabilities".to_owned());
    }
    if !texts(&service["security_opt"]).contains(&"no-new-privileges:true") {
        findings.push("it may gain rights".to_owned());
    }
    findings
}

/// Returns names in a service that do not exist.
fn dangling(service: &Value, deployment: &Deployment, targets: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    let image = service["image"].as_str().unwrap_or_default();
    findings.extend(unpinned(image));
    if program(service).is_some() {
        let target = service["build"]["target"].as_str().unwrap_or_default();
        if !targets.iter().any(|known| known == target) || image != format!("rpcgate-{target}:{}", version())
        {
            findings.push(format!("{image} is not what the stage {target:?} makes"));
        }
    }
    for (from, to, mode) in mounts(service) {
        let exists = match from.strip_prefix("./") {
            // If a file itself is mounted, an editor that replaces it changes it only for the host.
            Some(path) => mode == "ro" && tree::root().join(path).is_dir(),
            None => deployment.mounts.contains(from),
        };
        if !exists || !to.starts_with('/') {
            findings.push(format!("{from}:{to}:{mode} cannot be mounted"));
        }
    }
    let needed: Vec<_> = match &service["depends_on"] {
        Value::Array(_) => texts(&service["depends_on"]).into_iter().map(|name| (name, false)).collect(),
        other => entries(other).map(|(name, of)| (name, of["condition"] == "service_healthy")).collect(),
    };
    for (name, healthy) in needed {
        let Some(other) = deployment.services.get(name) else {
            findings.push(format!("there is no {name}"));
            continue;
        };
        if healthy && other["healthcheck"]["test"].is_null() {
            findings.push(format!("{name} is never known to be healthy"));
        }
    }
    findings
}

/// Returns the faults of a service that runs one of our programs.
fn wrong_program(name: &str, service: &Value, program: &str, deployment: &Deployment) -> Vec<String> {
    let config = match deployment.configuration(name) {
        Ok(config) => config,
        Err(faults) => return vec![faults],
    };
    let mut findings = Vec::new();
    if service["user"] != format!("{USER}:{USER}").as_str() {
        findings.push("its user is not that of the image".to_owned());
    }
    let test = texts(&service["healthcheck"]["test"]);
    match test.split_first() {
        Some((&"CMD", asked)) if asked.first() == Some(&program) => findings.extend(wrong_command(asked)),
        _ => findings.push(format!("its health is asked by {test:?}")),
    }
    let time = |value: &Value| duration(value.as_str().unwrap_or("0s"));
    if time(&service["healthcheck"]["timeout"]) <= ANSWER_WITHIN {
        findings.push("the health check ends before the command does".to_owned());
    }
    if time(&service["stop_grace_period"]) < config.shutdown.grace + AFTER_GRACE {
        findings.push("it is killed while it drains".to_owned());
    }
    let mounts = mounts(service);
    let file = |(from, to, _): &(&str, &str, &str)| {
        let within = CONFIG.strip_prefix(to)?.strip_prefix('/')?;
        Some(format!("{}/{within}", from.strip_prefix("./")?))
    };
    if !mounts.iter().filter_map(file).any(|file| file == COMPOSE_CONFIG) {
        findings.push(format!("{CONFIG} is not {COMPOSE_CONFIG}"));
    }
    let own: Vec<_> = mounts.iter().filter(|(_, to, _)| *to == STATE).map(|(from, _, _)| *from).collect();
    let sharing = |from: &str| {
        let others = deployment.services.iter().filter(|(other, _)| *other != name);
        others.flat_map(|(_, other)| self::mounts(other)).any(|(shared, _, _)| shared == from)
    };
    if own.len() != 1 || own.iter().any(|from| sharing(from)) {
        findings.push(format!("{STATE} is not a volume of its own"));
    }
    if program == "rpcgate-admin" && config.admin.jwt.secret.is_none() {
        findings.push("it has no secret for tokens".to_owned());
    }
    if config.gateway.key_secret.is_none() || !config.database.url().starts_with("postgres:") {
        findings.push("it has no secret for keys, or a database of its own".to_owned());
    }
    findings
}

fn wrong_services(deployment: &Deployment, targets: &[String]) -> Vec<String> {
    let mut findings = Vec::new();
    for (name, service) in &deployment.services {
        let mut of = rights(service);
        of.extend(dangling(service, deployment, targets));
        if let Some(program) = program(service) {
            of.extend(wrong_program(name, service, program, deployment));
        }
        findings.extend(of.iter().map(|finding| format!("{COMPOSE}: {name}: {finding}")));
    }
    findings
}

/// Returns the words of the lines of the balancer's configuration that begin with `keyword`.
fn directives<'d>(balancer: &'d str, keyword: &str) -> Vec<Vec<&'d str>> {
    let lines = balancer.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    lines.filter(|words| words.first() == Some(&keyword)).collect()
}

/// Returns the faults of the balancer: servers or health checks that do not exist, and its timeouts.
fn wrong_balancer(deployment: &Deployment) -> Vec<String> {
    let mut findings = Vec::new();
    let mut reached = BTreeSet::new();
    for words in directives(&deployment.balancer, "server") {
        let (host, port) = words.get(2).and_then(|addr| addr.split_once(':')).unwrap_or_default();
        let Some(program) = deployment.services.get(host).and_then(program) else {
            findings.push(format!("there is no {host}"));
            continue;
        };
        let listen = deployment.configuration(host).map(|config| match program {
            "rpcgate-server" => config.gateway.listen,
            _ => config.admin.listen,
        });
        if !listen.is_ok_and(|listen| listen.port().to_string() == port && listen.ip().is_unspecified()) {
            findings.push(format!("{host} does not listen at {port}"));
        }
        reached.insert(host);
    }
    let forgotten = deployment.programs().filter(|(name, _, _)| !reached.contains(name));
    findings.extend(forgotten.map(|(name, _, _)| format!("{name} is not reached")));

    let asked: Vec<_> = directives(&deployment.balancer, "option")
        .into_iter()
        .filter(|words| words.get(1) == Some(&"httpchk"))
        .map(|words| words.get(3).copied().unwrap_or_default())
        .collect();
    let is_served = |path: &&str| serves("rpcgate-server/", path) && serves("rpcgate-admin/", path);
    if asked.is_empty() || !asked.iter().all(is_served) {
        findings.push(format!("the health is asked at {asked:?}"));
    }

    let bound: BTreeSet<_> = directives(&deployment.balancer, "bind")
        .iter()
        .filter_map(|words| words.get(1)?.rsplit(':').next())
        .collect();
    let balancers = deployment.services.values().filter(|service| program(service).is_none());
    let published: BTreeSet<_> = balancers
        .flat_map(|service| texts(&service["ports"]))
        .filter_map(|ports| ports.rsplit(':').next())
        .collect();
    if bound != published {
        findings.push(format!("it listens at {bound:?}, and {published:?} are published"));
    }

    let usual = effective("", &[]).unwrap();
    let longest = usual.gateway.ws.ping_interval.max(usual.chains["eth"].timeout);
    let times = directives(&deployment.balancer, "timeout");
    for kind in ["client", "server", "tunnel"] {
        let time = times.iter().find(|words| words.get(1) == Some(&kind)).and_then(|words| words.get(2));
        if time.is_none_or(|time| duration(time) <= longest) {
            findings.push(format!("timeout {kind} ends calls and streams that go on"));
        }
    }
    findings.iter().map(|finding| format!("{BALANCER}: {finding}")).collect()
}

/// Returns the names in `${NAME…}`, and the number of those that would be empty or have a value of the repository if
/// `.env` lacked them.
fn required(compose: &str) -> (BTreeSet<String>, usize) {
    let found = compose.split("${").skip(1).filter_map(|rest| rest.split('}').next());
    let mut names = BTreeSet::new();
    let mut optional = 0;
    for text in found {
        let (name, message) = text.split_once(":?").unwrap_or((text, ""));
        optional += usize::from(message.is_empty());
        names.insert(name.to_owned());
    }
    (names, optional)
}

/// Returns the names for which the script creates secrets.
fn made(script: &str) -> BTreeSet<String> {
    let names = script.split("for name in ").nth(1).and_then(|rest| rest.split(';').next());
    names.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}

// Shows (Packaging).
#[test]
fn composed_services_exist_and_have_no_more_rights_than_they_need() {
    let deployment = Deployment::read();
    assert_eq!(deployment.programs().count(), 3, "two gateways and the management side");
    let mut published = deployment.services.values().flat_map(|service| texts(&service["ports"]));
    assert!(published.all(|ports| ports.starts_with("127.0.0.1:")), "no key crosses a network in the clear");
    let targets = image::targets(&tree::read("Containerfile"));
    none(&wrong_services(&deployment, &targets), "What is composed is what the programs and the image have.");
}

// Shows (Packaging).
#[test]
fn the_balancer_reaches_every_program_and_asks_for_its_readiness() {
    none(
        &wrong_balancer(&Deployment::read()),
        "Names and ports are those of compose.yaml and its configuration.",
    );
}

// Shows (Packaging).
#[test]
fn the_composed_configuration_is_accepted_with_what_its_comments_propose() {
    let deployment = Deployment::read();
    for (name, service, _) in deployment.programs() {
        none(&wrong_configuration(&deployment.config, &variables(service)), name);
    }
}

// Shows (Packaging): One command makes the secrets; they have no default in the repository, and are not sent to the
// image's build.
#[test]
fn secrets_are_made_by_one_script_and_have_no_default() {
    let (names, optional) = required(&tree::read(COMPOSE));
    assert_eq!((names, optional), (made(&tree::read(SECRETS)), 0));
    assert!(
        tree::read(".gitignore").lines().any(|line| line == "/.env"),
        "git ignores what the script writes"
    );
    let root = tempfile::tempdir().unwrap();
    let script = root.path().join(SECRETS);
    std::fs::create_dir_all(script.parent().unwrap()).unwrap();
    std::fs::write(&script, tree::read(SECRETS)).unwrap();
    let run = || {
        let done = Command::new("sh").arg(&script).output().unwrap();
        assert!(done.status.success(), "{done:?}");
        std::fs::read_to_string(root.path().join(".env")).unwrap()
    };
    let first = run();
    let values: BTreeMap<_, _> = first.lines().filter_map(|line| line.split_once('=')).collect();
    let distinct: BTreeSet<_> = values.values().collect();
    assert_eq!((values.len(), distinct.len()), (made(&tree::read(SECRETS)).len(), values.len()), "{first}");
    assert!(values.values().all(|value| value.len() == 64), "{first}");
    assert_eq!(run(), first, "the secrets that are there stay");
    let mode = std::fs::metadata(root.path().join(".env")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

// Shows (Packaging).
#[test]
#[cfg_attr(not(have_haproxy), ignore = "needs haproxy (apt install haproxy)")]
fn haproxy_accepts_the_balancers_configuration() {
    let haproxy = ["/usr/sbin/haproxy", "/usr/local/sbin/haproxy", "/usr/local/bin/haproxy"]
        .into_iter()
        .find(|path| std::path::Path::new(path).is_file())
        .unwrap_or("haproxy");
    let done = Command::new(haproxy).arg("-c").arg("-f").arg(tree::root().join(BALANCER)).output().unwrap();
    let messages = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && !messages.contains("[ALERT]"), "{messages}");
    // Outside of the deployment its names are unknown; no other warning is allowed.
    let warnings: Vec<_> = messages
        .lines()
        .filter(|line| line.contains("[WARNING]") && !line.contains("could not resolve"))
        .collect();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(change: impl Fn(&str, &str) -> String) -> usize {
        let [compose, balancer, config] =
            [COMPOSE, BALANCER, COMPOSE_CONFIG].map(|path| change(path, &tree::read(path)));
        let deployment = Deployment::new(&compose, &balancer, &config);
        let targets = ["admin".to_owned(), "server".to_owned()];
        wrong_services(&deployment, &targets).len() + wrong_balancer(&deployment).len()
    }

    // Shows (Packaging).
    #[test]
    fn a_fault_of_the_composition_is_found() {
        for (path, good, bad) in [
            (COMPOSE, "user: \"99:99\"", "user: \"0:0\""),
            (COMPOSE, "user: \"99:99\"", "user: haproxy"),
            (COMPOSE, "haproxy:3.0.12", "haproxy:latest"),
            (COMPOSE, "read_only: true", "read_only: false"),
            (COMPOSE, "cap_drop: [ALL]", "cap_drop: [CHOWN]"),
            (COMPOSE, "target: server", "target: gateway"),
            (COMPOSE, "rpcgate-server:0.1.0", "rpcgate-server:0.0.9"),
            (COMPOSE, "\"health\", \"--ready\"", "\"ready\""),
            (COMPOSE, "timeout: 5s", "timeout: 2s"),
            (COMPOSE, "stop_grace_period: 60s\n  networks: [front, back]", "stop_grace_period: 40s"),
            (COMPOSE, "\"gateway-2:/var/lib/rpcgate\"", "\"gateway-1:/var/lib/rpcgate\""),
            (COMPOSE, "\"gateway-2:/var/lib/rpcgate\"", "\"gateway-3:/var/lib/rpcgate\""),
            (COMPOSE, "deploy/compose:/etc/rpcgate", "deploy/none:/etc/rpcgate"),
            (COMPOSE, "deploy/compose:/etc/rpcgate", "deploy/image:/etc/rpcgate"),
            (COMPOSE, "deploy/compose:/etc/rpcgate", "deploy/compose:/etc/other"),
            (COMPOSE, "deploy/compose:/etc/rpcgate", "deploy/compose/rpcgate.toml:/etc/rpcgate/rpcgate.toml"),
            (COMPOSE, "RPCGATE_ADMIN__JWT__SECRET", "RPCGATE_ADMIN__JWT_SECRET"),
            (COMPOSE, "RPCGATE_REDIS__URL", "RPCGATE_REDIS_URL"),
            (COMPOSE, "redis: {condition: service_healthy}", "memcached: {condition: service_healthy}"),
            (COMPOSE, "127.0.0.1:8081:8081", "127.0.0.1:8081:8082"),
            (BALANCER, "gateway-2:8080", "gateway-2:8081"),
            (BALANCER, "server gateway-2 gateway-2:8080", ""),
            (BALANCER, "GET /readyz", "GET /ready"),
            (BALANCER, "timeout tunnel 90s", "timeout tunnel 30s"),
            (BALANCER, "timeout server 90s", ""),
            (COMPOSE_CONFIG, "listen = \"0.0.0.0:8080\"", "listen = \"127.0.0.1:8080\""),
            (COMPOSE_CONFIG, "key_secret", "keysecret"),
            (COMPOSE_CONFIG, "[telemetry]", "[shutdown]\ngrace = \"1m\"\n[telemetry]"),
        ] {
            assert!(tree::read(path).contains(good), "{path}: {good}");
            let changed =
                |name: &str, text: &str| if name == path { text.replace(good, bad) } else { text.to_owned() };
            assert!(findings(changed) > 0, "{path}: {bad}");
        }
        assert_eq!(findings(|_, text| text.to_owned()), 0);
    }

    #[test]
    fn a_secret_with_a_default_is_found() {
        let (names, optional) = required("a: ${A:?run it}, b: x${B:-secret}y, c: ${C}");
        assert_eq!((names.len(), optional), (3, 2));
        assert_eq!(made("for name in A B; do").len(), 2);
    }
}
