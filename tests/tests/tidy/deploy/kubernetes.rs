//! The manifests of `examples/deploy/kubernetes`.

use std::collections::BTreeSet;
use std::time::Duration;

use rpcgate_config::Config;
use serde_json::Value;

use super::{
    AFTER_GRACE, CONFIG, STATE, USER, documents, effective, entries, items, serves, texts, unpinned, version,
    wrong_command, wrong_configuration,
};
use crate::{none, tree};

const FOLDER: &str = "examples/deploy/kubernetes/";

/// The minimum time before a hanging process is restarted.
const PATIENCE: u64 = 30;

struct Manifests {
    documents: Vec<Value>,
    text: String,
}

impl Manifests {
    fn new(files: &[(String, String)]) -> Self {
        Manifests {
            documents: files.iter().flat_map(|(_, text)| documents(text)).collect(),
            text: files.iter().map(|(_, text)| text.as_str()).collect(),
        }
    }

    fn of(&self, kinds: &[&str]) -> impl Iterator<Item = &Value> {
        self.documents.iter().filter(move |document| kinds.iter().any(|kind| document["kind"] == *kind))
    }

    fn workloads(&self) -> impl Iterator<Item = &Value> {
        self.of(&["StatefulSet", "Deployment", "DaemonSet", "Job", "CronJob"])
    }

    fn file(&self) -> &str {
        let file = self.of(&["ConfigMap"]).find_map(|map| map["data"]["rpcgate.toml"].as_str());
        file.unwrap_or_default()
    }

    /// Returns the keys of the Secret if it is created as the comment says.
    fn secrets(&self) -> BTreeSet<&str> {
        self.text.split("--from-literal=").skip(1).filter_map(|rest| rest.split('=').next()).collect()
    }
}

fn files() -> Vec<(String, String)> {
    let ours = tree::files().into_iter().filter(|file| file.path.starts_with(FOLDER));
    ours.filter_map(|file| Some((file.path, file.text?))).collect()
}

fn name(document: &Value) -> &str {
    document["metadata"]["name"].as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Returns the variables of a container. The value of a secret is a URL of the kind in its name.
fn variables(container: &Value) -> Vec<(String, String)> {
    let value = |variable: &Value| match variable["valueFrom"]["secretKeyRef"]["key"].as_str() {
        Some("database-url") => "postgres://user:password@host/name".to_owned(),
        Some("redis-url") => "redis://:password@host/0".to_owned(),
        Some("smtp-url") => "smtps://user:password@host".to_owned(),
        Some(_) => "an-unknown-secret".to_owned(),
        None => variable["value"].as_str().unwrap_or_default().to_owned(),
    };
    items(&container["env"])
        .map(|variable| (variable["name"].as_str().unwrap_or_default().to_owned(), value(variable)))
        .collect()
}

fn program(container: &Value) -> &str {
    let image = container["image"].as_str().unwrap_or_default();
    image.rsplit('/').next().and_then(|image| image.split(':').next()).unwrap_or_default()
}

/// Returns the number of the port `name` of a container, or the number itself.
fn port(container: &Value, name: &Value) -> u64 {
    let named = items(&container["ports"]).find(|port| port["name"] == *name);
    named.map_or(number(name), |port| number(&port["containerPort"]))
}

/// Reports whether `labels` contains the labels of `selector`.
fn selects(selector: &Value, labels: &Value) -> bool {
    let mut wanted = entries(selector).peekable();
    wanted.peek().is_some() && wanted.all(|(key, value)| labels[key] == *value)
}

/// Returns rights that a pod has and does not need.
fn rights(pod: &Value) -> Vec<String> {
    let mut findings = Vec::new();
    let of_pod = &pod["securityContext"];
    if of_pod["runAsNonRoot"] != true || of_pod["runAsUser"] != USER || of_pod["fsGroup"] != USER {
        findings.push("its user is not that of the image");
    }
    if of_pod["seccompProfile"]["type"] != "RuntimeDefault" {
        findings.push("it may use every system call");
    }
    if pod["automountServiceAccountToken"] != false {
        findings.push("it has a token of the cluster");
    }
    for container in items(&pod["containers"]).chain(items(&pod["initContainers"])) {
        let of = &container["securityContext"];
        if of["allowPrivilegeEscalation"] != false || texts(&of["capabilities"]["drop"]) != ["ALL"] {
            findings.push("it may gain rights");
        }
        if !of["capabilities"]["add"].is_null() || of["privileged"] == true || !of["runAsUser"].is_null() {
            findings.push("it has capabilities");
        }
        if of["readOnlyRootFilesystem"] != true {
            findings.push("its root can be written");
        }
    }
    findings.into_iter().map(str::to_owned).collect()
}

/// Returns the faults of a container's probes and its termination time.
fn wrong_times(pod: &Value, container: &Value, config: &Config) -> Vec<String> {
    let mut findings = Vec::new();
    let package = format!("{}/", program(container));
    let has_api = has_api(container);
    let listen = match program(container) {
        "rpcgate-server" => config.gateway.listen,
        _ => config.admin.listen,
    };
    let metrics = config.telemetry.listen;
    let needed: &[&str] = if has_api { &["readinessProbe", "livenessProbe"] } else { &["livenessProbe"] };
    for kind in needed {
        if container[*kind].is_null() {
            findings.push(format!("there is no {kind}"));
        }
    }
    for kind in ["readinessProbe", "livenessProbe", "startupProbe"] {
        let probe = &container[kind];
        if probe.is_null() {
            continue;
        }
        let path = probe["httpGet"]["path"].as_str().unwrap_or_default();
        let (wanted, at) = match kind {
            _ if !has_api => ("/metrics", metrics),
            "readinessProbe" => ("/readyz", Some(listen)),
            _ => ("/healthz", Some(listen)),
        };
        let is_there = at.is_some_and(|at| {
            at.ip().is_unspecified() && u64::from(at.port()) == port(container, &probe["httpGet"]["port"])
        });
        if path != wanted || !serves(&package, path) || !is_there {
            findings.push(format!("{kind} asks at {path}"));
        }
        let period = number(&probe["periodSeconds"]);
        let timeout = number(&probe["timeoutSeconds"]);
        if timeout == 0 || timeout > period {
            findings.push(format!("{kind}: the next one begins before the last has ended"));
        }
    }
    let ends =
        |kind: &str| number(&container[kind]["periodSeconds"]) * number(&container[kind]["failureThreshold"]);
    if ends("livenessProbe") < PATIENCE || ends("livenessProbe") <= ends("readinessProbe") {
        findings.push("it is killed before it is left alone".to_owned());
    }
    let before = Duration::from_secs(number(&container["lifecycle"]["preStop"]["sleep"]["seconds"]));
    let stops = Duration::from_secs(number(&pod["terminationGracePeriodSeconds"]));
    if stops < before + config.shutdown.grace + AFTER_GRACE {
        findings.push("it is killed while it drains".to_owned());
    }
    if has_api && before.is_zero() {
        findings.push("it drains before the cluster knows".to_owned());
    }
    findings
}

fn args(container: &Value) -> Vec<&str> {
    texts(&container["args"])
}

/// Reports whether a container answers requests: a management side without the role `api` has only metrics.
fn has_api(container: &Value) -> bool {
    let args = args(container);
    let roles = args.iter().position(|word| *word == "--role").and_then(|at| args.get(at + 1));
    roles.is_none_or(|roles| roles.split(',').any(|role| role == "api"))
}

/// Returns files that a pod reads or writes and that do not exist.
fn wrong_mounts(workload: &Value, pod: &Value, container: &Value, manifests: &Manifests) -> Vec<String> {
    let mut findings = Vec::new();
    let secrets = manifests.secrets();
    let claims: BTreeSet<_> = items(&workload["spec"]["volumeClaimTemplates"]).map(name).collect();
    let of_pod = items(&pod["volumes"]).filter_map(|volume| volume["name"].as_str());
    let volumes: BTreeSet<_> = of_pod.chain(claims.iter().copied()).collect();
    let mounts = || {
        let mounts = items(&container["volumeMounts"]);
        mounts.map(|mount| {
            (mount["mountPath"].as_str().unwrap_or_default(), mount["name"].as_str().unwrap_or_default())
        })
    };
    findings.extend(
        mounts().filter(|(_, volume)| !volumes.contains(volume)).map(|(_, volume)| format!("no {volume}")),
    );
    let at = |path: &str| mounts().find(|(mounted, _)| *mounted == path).map(|(_, volume)| volume);
    let folder = CONFIG.strip_suffix("/rpcgate.toml").unwrap_or_default();
    let configured = items(&pod["volumes"]).find(|volume| volume["name"].as_str() == at(folder));
    let map = configured.and_then(|volume| volume["configMap"]["name"].as_str());
    if at(folder).is_none() || !manifests.of(&["ConfigMap"]).any(|found| Some(name(found)) == map) {
        findings.push(format!("there is no {CONFIG}"));
    }
    match at(STATE) {
        None => findings.push(format!("{STATE} cannot be written")),
        // The journal has usage that is nowhere else.
        Some(volume) if program(container) == "rpcgate-server" && !claims.contains(volume) => {
            findings.push("the journal does not survive its pod".to_owned());
        }
        Some(_) => {}
    }
    if program(container) == "rpcgate-admin" && at("/tmp").is_none() {
        findings.push("/tmp cannot be written".to_owned());
    }
    let mounted =
        items(&pod["volumes"]).flat_map(|volume| items(&volume["secret"]["items"])).map(|item| &item["key"]);
    let named = items(&container["env"]).map(|variable| &variable["valueFrom"]["secretKeyRef"]["key"]);
    let unknown = mounted.chain(named).filter_map(Value::as_str).filter(|key| !secrets.contains(key));
    findings.extend(unknown.map(|key| format!("the Secret has no {key}")));
    // A file in the settings must be in a mounted secret.
    let given = items(&container["env"]).filter_map(|variable| variable["value"].as_str());
    let read = given.chain(manifests.file().split('"')).filter(|path| path.starts_with("/run/secrets/"));
    for path in read {
        let (folder, file) = path.rsplit_once('/').unwrap_or_default();
        let volume = items(&pod["volumes"]).find(|volume| volume["name"].as_str() == at(folder));
        if at(folder).is_none()
            || !volume.is_some_and(|of| items(&of["secret"]["items"]).any(|item| item["path"] == file))
        {
            findings.push(format!("there is no {path}"));
        }
    }
    findings
}

fn wrong_workload(workload: &Value, manifests: &Manifests) -> Vec<String> {
    let template = &workload["spec"]["template"];
    let pod = &template["spec"];
    let mut findings = rights(pod);
    if !selects(&workload["spec"]["selector"]["matchLabels"], &template["metadata"]["labels"]) {
        findings.push("it does not find its pods".to_owned());
    }
    // Kubernetes would create variables with our prefix from a service of that name.
    if pod["enableServiceLinks"] != false {
        findings.push("variables of services may be taken for settings".to_owned());
    }
    let set = workload["spec"]["serviceName"].as_str();
    let headless = |service: &Value| Some(name(service)) == set && service["spec"]["clusterIP"] == "None";
    if workload["kind"] == "StatefulSet" && !manifests.of(&["Service"]).any(headless) {
        findings.push("the names of its pods have no service".to_owned());
    }
    for container in items(&pod["containers"]) {
        let image = container["image"].as_str().unwrap_or_default();
        findings.extend(unpinned(image));
        if !image.ends_with(&format!(":{}", version())) {
            findings.push(format!("{image} is another version"));
        }
        let command: Vec<_> = std::iter::once(program(container)).chain(args(container)).collect();
        findings.extend(wrong_command(&command));
        let resources = &container["resources"];
        if resources["requests"]["cpu"].is_null()
            || resources["requests"]["memory"].is_null()
            || resources["limits"]["memory"].is_null()
        {
            findings.push("its resources are not stated".to_owned());
        }
        findings.extend(wrong_mounts(workload, pod, container, manifests));
        match effective(manifests.file(), &variables(container)) {
            Ok(config) => {
                findings.extend(wrong_times(pod, container, &config));
                let listened =
                    [Some(config.gateway.listen), Some(config.admin.listen), config.telemetry.listen];
                let ports = items(&container["ports"]).map(|port| number(&port["containerPort"]));
                let closed =
                    ports.filter(|port| !listened.iter().flatten().any(|at| u64::from(at.port()) == *port));
                findings.extend(closed.map(|port| format!("nothing listens at {port}")));
                if program(container) == "rpcgate-admin" && config.admin.jwt.secret.is_none() {
                    findings.push("it has no secret for tokens".to_owned());
                }
                if program(container) == "rpcgate-server" && config.redis.url.is_none() {
                    findings.push("it counts alone".to_owned());
                }
            }
            Err(faults) => findings.push(faults),
        }
    }
    findings
}

/// Returns selectors, targets and permissions for resources that do not exist.
fn dangling(manifests: &Manifests) -> Vec<String> {
    let mut findings = Vec::new();
    let templates = || manifests.workloads().map(|workload| &workload["spec"]["template"]);
    let has_pods =
        |selector: &Value| templates().any(|template| selects(selector, &template["metadata"]["labels"]));
    for service in manifests.of(&["Service"]) {
        let selector = &service["spec"]["selector"];
        let found = templates().filter(|template| selects(selector, &template["metadata"]["labels"]));
        let containers: Vec<_> = found.flat_map(|template| items(&template["spec"]["containers"])).collect();
        let is_open = |of: &Value| {
            containers
                .iter()
                .any(|container| items(&container["ports"]).any(|port| port["name"] == of["targetPort"]))
        };
        if !items(&service["spec"]["ports"]).all(is_open) || containers.is_empty() {
            findings.push(format!("the service {} leads nowhere", name(service)));
        }
    }
    for other in manifests.of(&["PodDisruptionBudget"]) {
        if !has_pods(&other["spec"]["selector"]["matchLabels"]) {
            findings.push(format!("the budget {} is of no pods", name(other)));
        }
    }
    let guarded = |workload: &Value| {
        let labels = &workload["spec"]["template"]["metadata"]["labels"];
        manifests
            .of(&["PodDisruptionBudget"])
            .any(|of| selects(&of["spec"]["selector"]["matchLabels"], labels))
    };
    let bare = manifests.workloads().filter(|workload| !guarded(workload));
    findings.extend(bare.map(|workload| format!("{} has no budget", name(workload))));
    for scaler in manifests.of(&["HorizontalPodAutoscaler"]) {
        let target = &scaler["spec"]["scaleTargetRef"];
        let scaled = manifests.workloads().find(|workload| {
            ["kind", "apiVersion"].iter().all(|key| workload[*key] == target[*key])
                && target["name"] == name(workload)
        });
        // A fixed number would undo the autoscaler's number at each `apply`.
        if scaled.is_none_or(|workload| !workload["spec"]["replicas"].is_null()) {
            findings.push(format!("the autoscaler {} scales nothing", name(scaler)));
        }
    }
    for policy in manifests.of(&["NetworkPolicy"]) {
        let open: BTreeSet<_> = items(&policy["spec"]["ingress"])
            .flat_map(|rule| items(&rule["ports"]))
            .map(|port| number(&port["port"]))
            .collect();
        let used: BTreeSet<_> = templates()
            .flat_map(|template| items(&template["spec"]["containers"]))
            .flat_map(|container| items(&container["ports"]))
            .map(|port| number(&port["containerPort"]))
            .collect();
        if open != used || !has_pods(&policy["spec"]["podSelector"]["matchLabels"]) {
            findings.push(format!("the policy {} lets in {open:?} of {used:?}", name(policy)));
        }
    }
    let namespaces: BTreeSet<_> = manifests.of(&["Namespace"]).map(name).collect();
    let outside = manifests.documents.iter().filter(|document| {
        document["kind"] != "Namespace"
            && !document["metadata"]["namespace"].as_str().is_some_and(|of| namespaces.contains(of))
    });
    findings.extend(outside.map(|document| format!("{} is in another namespace", name(document))));
    findings.extend(
        manifests.of(&["Secret"]).map(|secret| format!("{}: a secret in the repository", name(secret))),
    );
    findings
}

fn faults(manifests: &Manifests) -> Vec<String> {
    let of_workload = |workload| {
        let findings = wrong_workload(workload, manifests);
        findings.into_iter().map(|finding| format!("{}: {finding}", name(workload))).collect::<Vec<_>>()
    };
    let mut findings: Vec<_> = manifests.workloads().flat_map(of_workload).collect();
    findings.extend(dangling(manifests));
    findings
}

// Shows (Packaging).
#[test]
fn manifests_agree_with_the_programs_and_with_each_other() {
    let manifests = Manifests::new(&files());
    assert_eq!(
        manifests.workloads().count(),
        3,
        "gateways, the management API, and what works without requests"
    );
    none(&faults(&manifests), "Names, ports, paths and times are those of the programs.");
}

// Shows (Packaging).
#[test]
fn the_configuration_map_is_accepted_with_what_its_comments_propose() {
    let manifests = Manifests::new(&files());
    assert!(!manifests.file().is_empty());
    none(&wrong_configuration(manifests.file(), &[]), "docs/rpcgate.example.toml has every key.");
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shows (Packaging).
    #[test]
    fn a_fault_of_a_manifest_is_found() {
        for (good, bad) in [
            ("runAsUser: 10001", "runAsUser: 0"),
            ("runAsNonRoot: true", "runAsNonRoot: false"),
            ("drop: [ALL]", "drop: [NET_RAW]"),
            ("readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false"),
            ("allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"),
            ("enableServiceLinks: false", "enableServiceLinks: true"),
            ("rpcgate-server:0.1.0", "rpcgate-server:latest"),
            ("rpcgate-admin:0.1.0", "rpcgate-admin:0.1.1"),
            ("\"janitor,dispatcher,watcher\"", "\"janitor,sender\""),
            ("path: /readyz", "path: /ready"),
            ("path: /healthz", "path: /readyz"),
            ("path: /metrics", "path: /healthz"),
            ("timeoutSeconds: 5", "timeoutSeconds: 15"),
            ("failureThreshold: 6", "failureThreshold: 2"),
            ("terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 45"),
            ("grace = \"30s\"", "grace = \"45s\""),
            ("            preStop: {sleep: {seconds: 5}}", "            postStart: {sleep: {seconds: 5}}"),
            ("containerPort: 8081", "containerPort: 8082"),
            ("listen = \"0.0.0.0:9090\"", "listen = \"127.0.0.1:9090\""),
            ("listen = \"0.0.0.0:8080\"", "listen = \"0.0.0.0:8088\""),
            ("targetPort: metrics", "targetPort: scrape"),
            ("clusterIP: None", "clusterIP: 10.0.0.1"),
            ("key: redis-url", "key: cache-url"),
            ("--from-literal=smtp-url=", "--from-literal=mail-url="),
            ("RPCGATE_REDIS__URL", "RPCGATE_REDIS__ADDRESS"),
            ("/run/secrets/rpcgate/jwt-secret", "/run/secrets/rpcgate/token-secret"),
            ("mountPath: /etc/rpcgate,", "mountPath: /etc/gateway,"),
            ("mountPath: /tmp", "mountPath: /temporary"),
            ("volumeClaimTemplates", "volumeClaims"),
            ("memory: 1536Mi", "swap: 1536Mi"),
            ("kind: StatefulSet, name: gateway}", "kind: Deployment, name: gateway}"),
            ("kind: PodDisruptionBudget", "kind: Budget"),
            ("[{port: 8080}, {port: 8081}]", "[{port: 8080}]"),
            ("  namespace: rpcgate\ndata", "  namespace: default\ndata"),
            ("kind: Namespace", "kind: Secret"),
        ] {
            let text: String = files().into_iter().map(|(_, text)| text).collect();
            assert!(text.contains(good), "{good}");
            let changed: Vec<_> =
                files().into_iter().map(|(path, text)| (path, text.replace(good, bad))).collect();
            assert!(!faults(&Manifests::new(&changed)).is_empty(), "{bad}");
        }
    }
}
