//! A PROXY protocol header: it ends within the bytes and its size limit, and at the same position however much of it
//! has arrived. The address that it names is spelled in it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rpcgate_process::proxy_protocol::{client_of, header_len};

fuzz_target!(|bytes: &[u8]| {
    let Ok(Some(length)) = header_len(bytes) else { return };
    assert!(length <= bytes.len() && length <= 2_048);
    let (header, _) = bytes.split_at(length);
    assert_eq!(header_len(header), Ok(Some(length)));
    for cut in 0..length {
        assert_eq!(header_len(&header[..cut]), Ok(None), "it ends once");
    }
    let Ok(Some(client)) = client_of(header) else { return };
    if let Ok(text) = std::str::from_utf8(header).map(str::trim_end)
        && text.starts_with("PROXY ")
    {
        let words: Vec<_> = text.split(' ').collect();
        assert_eq!(words.len(), 6);
        assert_eq!(words[2].parse(), Ok(client.ip()));
        assert_eq!(words[4].parse(), Ok(client.port()));
    } else {
        assert!(header[12] == 0x21 && matches!(header[13], 0x10 | 0x11 | 0x20 | 0x21));
    }
});
