use super::*;
use crate::grpc::protobuf::Message;
use crate::json::object;
use serde_json::json;

/// The maximum nesting of messages in a request, which prost bounds so that a client cannot overflow the stack.
const DEPTH: usize = 101;

const TEXT: &str = "syntax = \"proto3\"; package p; import \"known.proto\"; enum E { ZERO = 0; SEVEN = 7; } \
    message M { string text = 1; bytes data = 2; int64 signed = 3; uint64 large = 4; int32 small = 5; uint32 plain = 6; \
    bool yes = 7; double share = 8; E kind = 9; M inner = 10; repeated uint64 list = 11; repeated E kinds = 12; \
    repeated string texts = 13; repeated M more = 14; google.protobuf.Any any = 15; string rate = 16; \
    google.protobuf.Timestamp time = 17; google.protobuf.Duration span = 18; }";
const KNOWN: &str = "syntax = \"proto3\"; package google.protobuf; message Any { string type_url = 1; bytes value = 2; } \
    message Timestamp { int64 seconds = 1; int32 nanos = 2; } message Duration { int64 seconds = 1; }";

fn schema(form: JsonForm) -> Schema {
    const FILES: &[(&str, &str)] = &[("p.proto", TEXT), ("known.proto", KNOWN)];
    Schema::read(FILES, form).unwrap()
}

fn canonical() -> Schema {
    schema(JsonForm::Canonical { decimals: &["rate"] })
}

#[test]
fn canonical_json_is_encoded_and_decoded() {
    let value = object! {
        "text": "é", "data": "AQI=", "signed": "-1", "large": "18446744073709551615", "small": -2i32, "plain": 3u32,
        "yes": true, "share": Json::float(0.25), "kind": "SEVEN", "inner": object! {},
        "list": vec!["1", "300"], "kinds": vec!["SEVEN", "ZERO"], "texts": vec!["", "b"],
        "more": vec![object! { "text": "a" }], "any": object! { "@type": "/p.M", "text": "in" },
        "time": "2027-01-15T08:00:00.123456789Z", "span": "1814400s", "unknown": 1u64,
    };
    let schema = canonical();
    let expected = json!({
        "text": "é", "data": "AQI=", "signed": "-1", "large": "18446744073709551615", "small": -2, "plain": 3,
        "yes": true, "share": 0.25, "kind": "SEVEN", "inner": {}, "list": ["1", "300"], "kinds": ["SEVEN", "ZERO"],
        "texts": ["", "b"], "more": [{ "text": "a" }], "any": { "@type": "/p.M", "text": "in" },
        "time": "2027-01-15T08:00:00.123456789Z", "span": "1814400s",
    });
    assert_eq!(schema.decode("p.M", &schema.encode("p.M", &value)), Some(expected));
}

#[test]
fn values_have_the_bytes_of_the_encoding() {
    let schema = canonical();
    let encoded = |value: Json| hex::encode(schema.encode("p.M", &value));
    assert_eq!(encoded(object! { "small": -2i32 }), "28feffffffffffffffff01");
    assert_eq!(encoded(object! { "list": vec!["1", "300"] }), "5a0301ac02");
    assert_eq!(encoded(object! { "share": Json::float(1.0) }), "41000000000000f03f");
    assert_eq!(encoded(object! { "inner": object! {} }), "5200");
    assert_eq!(
        encoded(object! { "rate": "0.050000000000000000" }),
        format!("820111{}", hex::encode("50000000000000000"))
    );
    assert_eq!(encoded(object! { "rate": "0.000000000000000000" }), format!("820101{}", hex::encode("0")));
    assert_eq!(encoded(object! { "text": Json::Null, "large": "0", "yes": false, "kind": "ZERO" }), "");
}

#[test]
fn the_form_of_tron_has_hex_and_plain_numbers_and_encoded_messages() {
    let schema = schema(JsonForm::Hex);
    let value =
        object! { "data": "0102", "signed": 7u64, "inner": object! { "text": "no" }, "inner_hex": "0a0178" };
    let decoded = schema.decode("p.M", &schema.encode("p.M", &value));
    assert_eq!(decoded, Some(json!({ "data": "0102", "signed": 7, "inner": { "text": "x" } })));
}

#[test]
fn bytes_that_are_no_message_of_the_type_are_refused() {
    let schema = canonical();
    for wrong in ["0a05", "0801", "0a02ff00", "1a00", "520108", "5a01ff", "7a020a01"] {
        assert_eq!(schema.decode("p.M", &hex::decode(wrong).unwrap()), None, "{wrong}");
    }
    assert_eq!(schema.decode("p.M", &hex::decode("a20601ff").unwrap()), Some(json!({})), "an unknown field");
    assert_eq!(schema.decode("p.None", b""), None);
}

#[test]
fn a_deeply_nested_message_is_refused() {
    let schema = canonical();
    let nested =
        |depth: usize| (0..depth).fold(Vec::new(), |inner, _| Message::default().item(10, inner).done());
    assert!(schema.decode("p.M", &nested(DEPTH - 1)).is_some());
    assert_eq!(schema.decode("p.M", &nested(DEPTH)), None);
}

#[test]
fn an_unknown_type_in_an_any_keeps_its_bytes() {
    let schema = canonical();
    let any = Message::default().bytes(1, "/x.Y").bytes(2, [1, 2]);
    let decoded = schema.decode("p.M", &Message::default().item(15, any).done());
    assert_eq!(decoded, Some(json!({ "any": { "@type": "/x.Y", "value": "AQI=" } })));
}
