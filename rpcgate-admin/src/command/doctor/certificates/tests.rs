use super::super::examination::tests::{examination, only};
use super::super::finding::Verdict;
use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rpcgate_core::clock::ManualClock;
use tempfile::TempDir;

/// Noon of the last day of 2026.
const NOW: Time = Time::from_secs(1_798_718_400);

/// Returns a certificate for `gate.example` that is valid from the start of 2026 until the first of June 2027.
fn params() -> CertificateParams {
    let mut params = CertificateParams::new(vec!["gate.example".into(), "*.gate.example".into()]).unwrap();
    (params.not_before, params.not_after) =
        (rcgen::date_time_ymd(2026, 1, 1), rcgen::date_time_ymd(2027, 6, 1));
    params
}

/// Returns the findings about these PEM texts at this time, with additional configuration.
fn found(cert: &str, key: &str, now: Time, more: &str) -> Vec<Finding> {
    let dir = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    let cert = write("cert.pem", cert);
    let key = write("key.pem", key);
    let text = format!("[gateway]\ntls.cert = {cert:?}\ntls.key = {key:?}\n{more}");
    let at = Examination { clock: Arc::new(ManualClock::at(now)), ..examination(&text) };
    check(&at)
}

fn verdicts(findings: &[Finding]) -> Vec<(Verdict, &str)> {
    findings.iter().map(|finding| (finding.verdict, &*finding.text)).collect()
}

const NO_PUBLIC: (Verdict, &str) = (
    Verdict::Warning,
    "no public authority is found above it: clients refuse it unless they trust its authority",
);
const NAMES: (Verdict, &str) = (Verdict::Ok, "is for gate.example, *.gate.example");

#[test]
fn a_gateway_without_tls_has_no_finding() {
    assert_eq!(only(&check(&examination(""))).verdict, Verdict::Ok);
}

// Shows (Commands and configuration).
#[test]
fn the_days_that_a_certificate_is_valid_for_are_counted() {
    let key = KeyPair::generate().unwrap();
    let cert = params().self_signed(&key).unwrap().pem();
    let at = |days: u64| found(&cert, &key.serialize_pem(), NOW.plus(days as u32 * DAY), "");
    // From noon of the last of December to midnight of the first of June.
    let fine = (Verdict::Ok, "belongs to its key, expires in 151 days");
    assert_eq!(verdicts(&at(0)), [fine, NO_PUBLIC, NAMES]);
    let soon = (Verdict::Warning, "expires in 29 days");
    assert_eq!(verdicts(&at(122)), [soon, NO_PUBLIC, NAMES]);
    let findings = at(162);
    let expired = (Verdict::Failure, "has expired 10 days ago");
    assert_eq!(verdicts(&findings), [expired, NAMES]);
    assert!(findings[0].advice.as_ref().unwrap().contains("replace the file"));
}

#[test]
fn a_certificate_of_another_key_and_files_without_one_are_failures() {
    let key = KeyPair::generate().unwrap();
    let other = KeyPair::generate().unwrap();
    let cert = params().self_signed(&key).unwrap().pem();
    for (cert, key, why) in [
        (cert.as_str(), other.serialize_pem(), "does not belong to the key in "),
        ("nothing", key.serialize_pem(), "cert.pem: "),
        (cert.as_str(), "nothing".into(), "key.pem: "),
    ] {
        let findings = found(cert, &key, NOW, "");
        let finding = only(&findings);
        assert!(finding.verdict == Verdict::Failure && finding.text.contains(why), "{finding}");
    }
}

#[test]
fn the_hosts_of_the_urls_that_users_get_must_be_among_its_names() {
    let key = KeyPair::generate().unwrap();
    let cert = params().self_signed(&key).unwrap().pem();
    let with = |url: &str| found(&cert, &key.serialize_pem(), NOW, &format!("[admin]\n{url}\n"));
    for url in ["gateway_url = \"https://gate.example/\"", "grpc_url = \"https://a.gate.example\""] {
        assert_eq!(*verdicts(&with(url)).last().unwrap(), NAMES, "{url}");
    }
    let findings = with("gateway_url = \"https://other.example/\"");
    let found = findings.last().unwrap();
    assert_eq!(found.verdict, Verdict::Failure);
    assert_eq!(
        found.text,
        "is not for other.example, the host of admin.gateway_url, but for gate.example, *.gate.example"
    );
    assert_eq!(*verdicts(&with("gateway_url = \"http://other.example/\"")).last().unwrap(), NAMES);
}

#[test]
fn a_certificate_chain_in_the_wrong_order_or_of_another_issuer_is_a_failure() {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) =
            (rcgen::date_time_ymd(2026, 1, 1), rcgen::date_time_ymd(2036, 1, 1));
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let ours = authority("ours");
    let foreign = authority("another");
    let key = KeyPair::generate().unwrap();
    let cert = params().signed_by(&key, &ours).unwrap().pem();
    let with = |chain: &str| found(chain, &key.serialize_pem(), NOW, "");
    let fine = (Verdict::Ok, "belongs to its key, expires in 151 days");
    assert_eq!(verdicts(&with(&format!("{cert}{}", ours.pem()))), [fine, NO_PUBLIC, NAMES]);
    assert_eq!(verdicts(&with(&cert)), [fine, NO_PUBLIC, NAMES], "clients may know its authority");
    let findings = with(&format!("{cert}{}", foreign.pem()));
    let wrong = findings.iter().find(|finding| finding.verdict == Verdict::Failure).unwrap();
    assert!(wrong.text.starts_with("its chain is wrong: ") && wrong.advice.is_some(), "{wrong}");
}

#[test]
fn the_certificate_of_the_management_side_and_its_client_authorities_are_checked() {
    let dir = TempDir::new().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let key = KeyPair::generate().unwrap();
    write("cert.pem", &params().self_signed(&key).unwrap().pem());
    write("key.pem", &key.serialize_pem());
    let authority = |until: i32| {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (authority.not_before, authority.not_after) =
            (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(until, 1, 1));
        authority.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    };
    let file = |name: &str| dir.path().join(name);
    let text = format!(
        "[admin.tls]\ncert = {:?}\nkey = {:?}\nclient_ca = {:?}\n",
        file("cert.pem"),
        file("key.pem"),
        file("ca.pem")
    );
    let found = || {
        let at = Examination { clock: Arc::new(ManualClock::at(NOW)), ..examination(&text) };
        check(&at).into_iter().map(|finding| (finding.verdict, finding.text)).collect::<Vec<_>>()
    };
    write("ca.pem", &format!("{}{}", authority(2040), authority(2041)));
    let fine = (Verdict::Ok, "belongs to its key, expires in 151 days".to_owned());
    let clients = (Verdict::Ok, "authorities of clients' certificates: 2".to_owned());
    let all = found();
    assert!(all.contains(&fine) && all.contains(&clients), "{all:?}");
    write("ca.pem", &format!("{}{}", authority(2026), authority(2041)));
    let expired = (Verdict::Failure, "has expired 364 days ago".to_owned());
    assert!(found().contains(&expired), "{:?}", found());
    for nothing in ["", "nothing"] {
        write("ca.pem", nothing);
        assert!(found().iter().any(|(verdict, _)| *verdict == Verdict::Failure), "{nothing}");
    }
}
