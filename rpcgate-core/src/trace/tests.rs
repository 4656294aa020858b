use super::*;
use proptest::prelude::*;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const SPAN: &str = "b7ad6b7169203331";

fn headers(rows: &[(HeaderName, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in rows {
        headers.append(name.clone(), HeaderValue::from_str(value).unwrap());
    }
    headers
}

// Shows (Traces, logs and metrics).
#[test]
fn a_valid_traceparent_is_read_and_any_other_is_ignored() {
    let read = |text: &str| TraceContext::parse(text.as_bytes());
    let context = read(&format!("00-{TRACE}-{SPAN}-01")).unwrap();
    assert_eq!(context.trace.bytes()[..2], [0x0a, 0xf7]);
    assert_eq!(context.span.bytes()[6..], [0x33, 0x31]);
    assert!(context.is_sampled());
    for (flags, is_sampled, kept) in [("00", false, "00"), ("03", true, "03"), ("fd", true, "01")] {
        let context = read(&format!("00-{TRACE}-{SPAN}-{flags}")).unwrap();
        assert_eq!(context.is_sampled(), is_sampled, "{flags}");
        assert!(context.text().ends_with(kept.as_bytes()), "{flags}: flags that are not known are not set");
    }
    // A later version may have more fields.
    for later in [format!("cc-{TRACE}-{SPAN}-01"), format!("01-{TRACE}-{SPAN}-01-what-the-future-will-be")] {
        assert!(read(&later).is_some(), "{later}");
    }
    for wrong in [
        String::new(),
        format!("ff-{TRACE}-{SPAN}-01"),
        format!("00-{TRACE}-{SPAN}-01-more"),
        format!("00-{TRACE}-{SPAN}-1"),
        format!("00-{TRACE}-{SPAN}-0x"),
        format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
        format!("00-{}-{SPAN}-01", "0".repeat(32)),
        format!("00-{TRACE}-{}-01", "0".repeat(16)),
        format!("00_{TRACE}-{SPAN}-01"),
        format!("0-{TRACE}-{SPAN}-011"),
        format!(" 00-{TRACE}-{SPAN}-01"),
        format!("01-{TRACE}-{SPAN}-01x"),
        format!("01-{TRACE}-{SPAN}-01-{}", "x".repeat(LONGEST)),
    ] {
        assert_eq!(read(&wrong), None, "{wrong}");
    }
}

#[test]
fn a_client_with_two_traceparents_has_none() {
    let text = format!("00-{TRACE}-{SPAN}-01");
    let none = TraceSampling::of_millionths(0);
    let one = [(TRACEPARENT, text.as_str())];
    assert!(none.begin(RequestId(7), &headers(&one)).is_some());
    let two = [(TRACEPARENT, text.as_str()), (TRACEPARENT, text.as_str())];
    assert_eq!(none.begin(RequestId(7), &headers(&two)), None);
}

// Shows (Traces, logs and metrics).
#[test]
fn a_client_may_refuse_tracing_but_cannot_exceed_the_ratio_and_its_node_is_notified() {
    let begin = |millionths: u32, flags: &str| {
        let text = format!("00-{TRACE}-{SPAN}-{flags}");
        let rows = [(TRACEPARENT, text.as_str()), (TRACESTATE, "a=1,b@c=2")];
        TraceSampling::of_millionths(millionths).begin(RequestId(7), &headers(&rows)).unwrap()
    };
    for (millionths, flags, is_sampled) in [(MILLION, "00", false), (MILLION, "01", true), (0, "01", false)] {
        let trace = begin(millionths, flags);
        let told_flags = if is_sampled { "01" } else { "00" };
        assert_eq!(trace.is_sampled(), is_sampled);
        assert_eq!(
            trace.parent.unwrap().bytes(),
            TraceContext::parse(format!("00-{TRACE}-{SPAN}-00").as_bytes()).unwrap().span.bytes()
        );
        assert_ne!(Some(trace.context.span), trace.parent);
        let mut told =
            headers(&[(TRACEPARENT, "the client's"), (TRACESTATE, "old=1"), (TRACESTATE, "old=2")]);
        trace.write(SpanId::new(0xabc).unwrap(), &mut told);
        assert_eq!(told[TRACEPARENT], format!("00-{TRACE}-0000000000000abc-{told_flags}"));
        assert_eq!(told.get_all(TRACESTATE).iter().collect::<Vec<_>>(), ["a=1,b@c=2"]);
    }
}

#[test]
fn a_trace_of_its_own_has_the_number_of_the_request_and_no_state() {
    let request = RequestId::new(crate::clock::Time::from_secs(1_800_000_000));
    let all = TraceSampling::of_millionths(MILLION);
    let trace = all.begin(request, &headers(&[(TRACESTATE, "a=1")])).unwrap();
    assert_eq!((trace.context.trace.bytes(), trace.parent), (request.0.to_be_bytes(), None));
    let mut told = headers(&[(TRACESTATE, "a=1")]);
    trace.write(SpanId::random(), &mut told);
    assert!(told[TRACEPARENT].to_str().unwrap().ends_with("-03"));
    assert!(!told.contains_key(TRACESTATE), "a state without a parent is nobody's");
    assert_eq!(all.begin(RequestId(0), &HeaderMap::new()).unwrap().context.trace.bytes()[15], 1);
}

// Shows (Traces, logs and metrics).
#[test]
fn the_share_of_traced_calls_equals_the_ratio() {
    let count = |millionths: u32| {
        let sampling = TraceSampling::of_millionths(millionths);
        let request = |_| RequestId::new(crate::clock::Time::from_secs(1_800_000_000));
        let requests = (0..20_000).map(request);
        requests
            .filter(|request| {
                let is_recorded = sampling.records(*request);
                assert_eq!(sampling.root(*request).is_some(), is_recorded);
                is_recorded
            })
            .count()
    };
    assert_eq!((count(0), count(MILLION), count(u32::MAX)), (0, 20_000, 20_000));
    // Six standard deviations of 20,000 calls are 367.
    assert!(count(250_000).abs_diff(5_000) < 400);
    assert!(count(1_000).abs_diff(20) < 27);
}

// Shows (Traces, logs and metrics): A client cannot have more of its calls traced than the operator's ratio.
#[test]
fn a_client_that_wants_all_of_its_calls_traced_gets_the_ratio() {
    let text = format!("00-{TRACE}-{SPAN}-01");
    let wanted = headers(&[(TRACEPARENT, text.as_str())]);
    let sampling = TraceSampling::of_millionths(250_000);
    let request = |_| RequestId::new(crate::clock::Time::from_secs(1_800_000_000));
    let traces = (0..20_000).map(request).map(|request| sampling.begin(request, &wanted).unwrap());
    let recorded = traces.filter(CallTrace::is_sampled).count();
    assert!(recorded.abs_diff(5_000) < 400, "{recorded}");
    assert!(TraceSampling::of_millionths(0).begin_as_requested(RequestId(7), &wanted).unwrap().is_sampled());
}

// Shows (Traces, logs and metrics).
#[test]
fn a_state_is_passed_on_as_a_whole_or_not_at_all() {
    let read = |lines: &[&str]| {
        let rows: Vec<_> = lines.iter().map(|line| (TRACESTATE, *line)).collect();
        read_state(&headers(&rows)).map(|state| state.to_str().unwrap().to_owned())
    };
    assert_eq!(read(&[]), None);
    assert_eq!(read(&["a=1"]).as_deref(), Some("a=1"));
    assert_eq!(read(&["a=1 , b=2,,", "t@v/x=z z"]).as_deref(), Some("a=1 , b=2,,,t@v/x=z z"));
    let members = |count: usize| (0..count).map(|n| format!("k{n}=v")).collect::<Vec<_>>().join(",");
    assert!(read(&[&members(32)]).is_some());
    let long = |bytes: usize| format!("a={},b={}", "x".repeat(250), "y".repeat(bytes - 255));
    assert_eq!(long(510).len(), 510);
    assert!(read(&[&long(510)]).is_some());
    for wrong in [
        "",
        ",",
        "a",
        "=1",
        "a=",
        "A=1",
        "_a=1",
        "a=1=2",
        "a=1,a=2",
        "a =1",
        "a=\t\tx\ty",
        &members(33),
        &format!("a={}", "x".repeat(257)),
        &format!("{}=1", "a".repeat(257)),
        &format!("{},c={}", long(510), "z"),
    ] {
        assert_eq!(read(&[wrong]), None, "{wrong}");
    }
    assert_eq!(read(&["a=1", "a=2"]), None);
    assert_eq!(read(&[&"x".repeat(600), "a=1", "b=1"]), None);
}

proptest! {
    #[test]
    fn a_read_value_is_written_unchanged(trace in 1_u128.., span in 1_u64.., flags in 0_u8..4) {
        let text = format!("00-{trace:032x}-{span:016x}-{flags:02x}");
        let context = TraceContext::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&context.text()[..], text.as_bytes());
        prop_assert_eq!((context.trace.bytes(), context.span.bytes()), (trace.to_be_bytes(), span.to_be_bytes()));
        prop_assert_eq!(context.is_sampled(), flags & 1 == 1);
    }

    #[test]
    fn everything_read_from_any_bytes_is_valid(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        if let Some(context) = TraceContext::parse(&bytes) {
            prop_assert_eq!(TraceContext::parse(&context.text()), Some(context));
        }
    }

    #[test]
    fn one_changed_byte_is_noticed_or_reads_as_valid(
        trace in 1_u128.., span in 1_u64.., at in 0_usize..55, byte in any::<u8>(),
    ) {
        let mut text = format!("00-{trace:032x}-{span:016x}-01").into_bytes();
        text[at] = byte;
        if let Some(context) = TraceContext::parse(&text) {
            // A changed version or unknown flags are reduced to the known parts.
            prop_assert_eq!(&context.text()[2..53], &text[2..53]);
            prop_assert!(text.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f' | b'-')));
        }
    }

    #[test]
    fn a_state_that_is_passed_on_is_short_and_printable(lines in prop::collection::vec("[ -~]{0,90}", 1..9)) {
        let mut given = HeaderMap::new();
        for line in &lines {
            given.append(TRACESTATE, HeaderValue::from_str(line).unwrap());
        }
        if let Some(state) = read_state(&given) {
            prop_assert!(state.len() <= 512);
            prop_assert!(state.as_bytes().split(|byte| *byte == b',').count() <= 512);
            prop_assert_eq!(state.to_str().unwrap(), lines.join(","));
        }
    }
}
