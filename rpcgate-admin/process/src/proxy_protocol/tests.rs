//! Tests of headers, and of connections that begin with one.

use super::*;
use proptest::prelude::*;
use tokio::net::TcpListener;

/// Returns a version 2 header with this command, this family and protocol, and this rest.
fn binary(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
    let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
    [v2::PROTOCOL_PREFIX, &[command, family], &length, rest].concat()
}

/// The addresses 198.51.100.7:40000 and 10.0.0.1:443.
const IPV4: [u8; 12] = [198, 51, 100, 7, 10, 0, 0, 1, 0x9c, 0x40, 1, 187];

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

// Shows (Commands and configuration): A balancer in `proxy_protocol` names its clients in a header before TLS; it must
// send the header, which is bounded in bytes and time, and no other client can send one.
#[test]
fn both_versions_name_the_client() {
    let text = |header: &str| client_of(header.as_bytes());
    let client = Ok(Some(addr("198.51.100.7:40000")));
    assert_eq!(text("PROXY TCP4 198.51.100.7 10.0.0.1 40000 443\r\n"), client);
    assert_eq!(client_of(&binary(0x21, 0x11, &IPV4)), client);
    let extended = [&IPV4[..], &[4, 0, 1, 42]].concat();
    assert_eq!(client_of(&binary(0x21, 0x11, &extended)), client, "extensions are skipped");
    let client = Ok(Some(addr("[2001:db8::7]:40000")));
    assert_eq!(text("PROXY TCP6 2001:db8::7 2001:db8::1 40000 443\r\n"), client);
    let ends = ["2001:db8::7", "2001:db8::1"].map(|ip| ip.parse::<std::net::Ipv6Addr>().unwrap().octets());
    let rest = [&ends[0][..], &ends[1], &IPV4[8..]].concat();
    assert_eq!(client_of(&binary(0x21, 0x21, &rest)), client);
}

#[test]
fn a_balancer_that_speaks_for_itself_names_no_client() {
    for header in [
        b"PROXY UNKNOWN\r\n".to_vec(),
        b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n".to_vec(),
        OF_THE_PEER.to_vec(),
        // The addresses of a connection of the balancer itself have no meaning.
        binary(0x20, 0x11, &IPV4),
        binary(0x20, 0x11, b""),
        // A client without a network address.
        binary(0x21, 0x00, b"\0\0\0"),
        binary(0x21, 0x31, &[0; 216]),
    ] {
        assert_eq!(client_of(&header), Ok(None), "{header:?}");
    }
}

#[test]
fn wrong_headers_are_refused() {
    for text in [
        "PROXY TCP4 198.51.100.256 10.0.0.1 40000 443\r\n",
        "PROXY TCP4 2001:db8::7 10.0.0.1 40000 443\r\n",
        "PROXY TCP6 198.51.100.7 10.0.0.1 40000 443\r\n",
        "PROXY TCP4 198.51.100.7 10.0.0.1 70000 443\r\n",
        "PROXY TCP4 198.51.100.7 10.0.0.1 443\r\n",
        "PROXY TCP4 198.51.100.7 10.0.0.1 40000 443\n",
        "PROXY UDP4 198.51.100.7 10.0.0.1 40000 443\r\n",
        "PROXY \r\n",
        "PROXY TCP4 \u{e4} 10.0.0.1 40000 443\r\n",
    ] {
        let found = client_of(text.as_bytes());
        assert!(matches!(found, Err(BadProxyHeader::Malformed(_))), "{text}: {found:?}");
    }
    for header in [
        binary(0x11, 0x11, &IPV4),
        binary(0x22, 0x11, &IPV4),
        binary(0x21, 0x41, &IPV4),
        binary(0x21, 0x13, &IPV4),
        binary(0x21, 0x11, &IPV4[1..]),
    ] {
        let found = client_of(&header);
        assert!(matches!(found, Err(BadProxyHeader::Malformed(_))), "{header:?}: {found:?}");
    }
    assert_eq!(client_of(&binary(0x21, 0x12, &IPV4)), Err(BadProxyHeader::Datagram));
}

// Shows (Commands and configuration).
#[test]
fn the_end_of_a_header_is_known_as_soon_as_it_is_there_and_is_bounded() {
    let text = b"PROXY TCP4 198.51.100.7 10.0.0.1 40000 443\r\n".to_vec();
    for header in [text, binary(0x21, 0x11, &IPV4)] {
        let more = [&header[..], b"GET / HTTP/1.1\r\n"].concat();
        for cut in 0..header.len() {
            assert_eq!(header_len(&more[..cut]), Ok(None), "{cut}");
        }
        assert_eq!(header_len(&more), Ok(Some(header.len())));
    }
    let endless = [TEXT, &[b'x'; LONGEST_TEXT]].concat();
    assert_eq!(header_len(&endless[..LONGEST_TEXT - 1]), Ok(None));
    assert_eq!(header_len(&endless[..LONGEST_TEXT]), Err(BadProxyHeader::TooLong));
    let largest = binary(0x21, 0x11, &[0; LONGEST - FIXED]);
    assert_eq!(header_len(&largest), Ok(Some(LONGEST)));
    let larger = binary(0x21, 0x11, &[0; LONGEST - FIXED + 1]);
    assert_eq!(header_len(&larger[..FIXED]), Err(BadProxyHeader::TooLong), "before the rest arrives");
    for other in [&b"GET / HTTP/1.1\r\n"[..], b"\x16\x03\x01", b"PROXYS", b"\r\n\r\n\0\r\nQUIT\r"] {
        assert_eq!(header_len(other), Err(BadProxyHeader::Missing), "{other:?}");
    }
}

proptest! {
    #[test]
    fn any_addresses_are_read_as_they_were_written(ip: IpAddr, port: u16, more in prop::collection::vec(any::<u8>(), 0..64)) {
        let family = if ip.is_ipv4() { "TCP4" } else { "TCP6" };
        let text = format!("PROXY {family} {ip} {ip} {port} 443\r\n");
        let (mut rest, family) = match ip {
            IpAddr::V4(ip) => ([ip.octets(), ip.octets()].concat(), 0x11),
            IpAddr::V6(ip) => ([ip.octets(), ip.octets()].concat(), 0x21),
        };
        rest.extend([port.to_be_bytes(), [1, 187]].concat());
        for header in [text.into_bytes(), binary(0x21, family, &rest)] {
            let sent = [&header[..], &more].concat();
            prop_assert_eq!(header_len(&sent), Ok(Some(header.len())));
            prop_assert_eq!(client_of(&header), Ok(Some(SocketAddr::new(ip, port))));
        }
    }

    #[test]
    fn no_bytes_are_taken_for_more_than_they_are(start in 0..3_usize, bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let start = [&b""[..], TEXT, v2::PROTOCOL_PREFIX][start];
        let bytes = [start, &bytes].concat();
        match header_len(&bytes) {
            Ok(Some(length)) => {
                prop_assert!(length <= bytes.len() && length <= LONGEST);
                let _ = client_of(&bytes[..length]);
            }
            Ok(None) => prop_assert!(bytes.len() < LONGEST),
            Err(error) => prop_assert!(matches!(error, BadProxyHeader::Missing | BadProxyHeader::TooLong)),
        }
    }
}

/// Returns the client's end of a connection, and the listener's end with the peer's address.
async fn pair() -> (TcpStream, (TcpStream, SocketAddr)) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap())
}

fn peers(network: &str) -> ProxyPeers {
    ProxyPeers::new(&[network.parse().unwrap()])
}

async fn rest(mut stream: TcpStream) -> String {
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    text
}

#[tokio::test]
async fn a_header_in_pieces_is_read_and_what_follows_stays() {
    for header in [b"PROXY TCP4 198.51.100.7 10.0.0.1 40000 443\r\n".to_vec(), binary(0x21, 0x11, &IPV4)] {
        let (mut client, (mut stream, peer)) = pair().await;
        let sending = tokio::spawn(async move {
            for byte in &header {
                client.write_all(&[*byte]).await.unwrap();
                tokio::task::yield_now().await;
            }
            client.write_all(b"GET / HTTP/1.1").await.unwrap();
        });
        let found = peers("127.0.0.0/8").client(&mut stream, peer).await;
        assert_eq!(found, Some(addr("198.51.100.7:40000")));
        sending.await.unwrap();
        assert_eq!(rest(stream).await, "GET / HTTP/1.1");
    }
}

#[tokio::test]
async fn a_header_and_a_request_in_one_piece_are_separated() {
    let (mut client, (mut stream, peer)) = pair().await;
    client.write_all(&[&OF_THE_PEER[..], b"GET / HTTP/1.1"].concat()).await.unwrap();
    drop(client);
    assert_eq!(peers("127.0.0.1/32").client(&mut stream, peer).await, Some(peer), "it keeps the peer");
    assert_eq!(rest(stream).await, "GET / HTTP/1.1");
}

#[tokio::test]
async fn nothing_is_read_from_other_peers() {
    let header = "PROXY TCP4 198.51.100.7 10.0.0.1 40000 443\r\n";
    for none in [peers("10.0.0.0/8"), ProxyPeers::new(&[])] {
        let (mut client, (mut stream, peer)) = pair().await;
        client.write_all(header.as_bytes()).await.unwrap();
        drop(client);
        assert_eq!(none.client(&mut stream, peer).await, Some(peer));
        assert_eq!(rest(stream).await, header);
    }
    assert!(peers("10.0.0.0/8").has("::ffff:10.0.0.7".parse().unwrap()), "in both forms of an address");
}

// Shows (Commands and configuration).
#[tokio::test]
async fn connections_without_a_whole_header_are_not_used() {
    let trusted = peers("127.0.0.0/8");
    for (sent, is_fault) in [
        (&b""[..], false),
        (b"PROXY TCP4 198.51.100.7", true),
        (b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xc6", true),
        (b"GET / HTTP/1.1\r\nhost: a\r\n\r\n", true),
        (b"PROXY TCP4 nobody 10.0.0.1 40000 443\r\n", true),
    ] {
        let trusted = ProxyPeers { is_reported: Arc::default(), ..trusted.clone() };
        let (mut client, (mut stream, peer)) = pair().await;
        client.write_all(sent).await.unwrap();
        drop(client);
        assert_eq!(trusted.client(&mut stream, peer).await, None, "{sent:?}");
        // A balancer's check that sends nothing is no fault.
        assert_eq!(trusted.is_reported.load(Relaxed), is_fault, "{sent:?}");
    }
}

// Shows (Commands and configuration).
#[tokio::test]
async fn a_header_that_does_not_end_is_abandoned_in_time() {
    let (mut client, (mut stream, peer)) = pair().await;
    client.write_all(TEXT).await.unwrap();
    let trusted = peers("127.0.0.0/8");
    tokio::time::pause();
    assert_eq!(trusted.client(&mut stream, peer).await, None);
    assert!(trusted.is_reported.load(Relaxed));
    drop(client);
}

#[tokio::test]
async fn a_connection_of_this_host_introduces_itself_where_that_is_required() {
    for (network, sent) in [("127.0.0.0/8", &OF_THE_PEER[..]), ("10.0.0.0/8", b"")] {
        let (client, (mut stream, _)) = pair().await;
        drop(peers(network).introduce(client).await.unwrap());
        let mut found = Vec::new();
        stream.read_to_end(&mut found).await.unwrap();
        assert_eq!(found, sent);
    }
}
