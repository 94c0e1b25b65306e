//! The frame of a DUMP payload: value, two bytes of RDB version, eight bytes of checksum. Tests that corrupt a
//! value compute the checksum anew, or the server itself would refuse the payload and the module never see it.

/// The server's CRC-64 ("Jones": reflected polynomial 0x95ac9329ac4bc9b5, start 0, no final xor).
pub fn crc64(bytes: &[u8]) -> u64 {
    const REFLECTED: u64 = 0x95ac_9329_ac4b_c9b5;
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(
            crc ^ u64::from(*byte),
            |c: u64, _| {
                if c & 1 == 1 {
                    (c >> 1) ^ REFLECTED
                } else {
                    c >> 1
                }
            },
        )
    })
}

/// Splits a DUMP payload into the value and the RDB version.
pub fn unseal(payload: &[u8]) -> (Vec<u8>, [u8; 2]) {
    let (body, footer) = payload.split_at(payload.len() - 10);
    (body.to_vec(), [footer[0], footer[1]])
}

/// Puts a value into a frame with a checksum that fits.
pub fn seal(body: &[u8], version: [u8; 2]) -> Vec<u8> {
    let mut payload = body.to_vec();
    payload.extend(version);
    payload.extend(crc64(&payload).to_le_bytes());
    payload
}

/// CRC-32C (Castagnoli), which ends a value of the module.
pub fn crc32c(bytes: &[u8]) -> u32 {
    const REFLECTED: u32 = 0x82f6_3b78;
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |c: u32, _| {
                if c & 1 == 1 {
                    (c >> 1) ^ REFLECTED
                } else {
                    c >> 1
                }
            },
        )
    })
}

/// What stands around the one string of a module's value: the type byte and nine bytes of module id before
/// it, an end mark after it.
const BEFORE: usize = 10;
const STRING: u8 = 5;
const END: u8 = 0;

/// The module's own bytes in a DUMP payload, without their checksum. The server must not compress
/// (`rdbcompression no`).
pub fn open(payload: &[u8]) -> Vec<u8> {
    let (body, _) = unseal(payload);
    assert_eq!(body[BEFORE], STRING);
    let rest = &body[BEFORE + 1..];
    let (length, text) = match rest[0] >> 6 {
        0 => (usize::from(rest[0]), &rest[1..]),
        1 => (usize::from(rest[0] & 0x3f) << 8 | usize::from(rest[1]), &rest[2..]),
        _ => {
            assert_eq!(rest[0], 0x80, "compressed");
            let four = rest[1..5].try_into().expect("four bytes");
            (u32::from_be_bytes(four) as usize, &rest[5..])
        }
    };
    assert_eq!(&text[length..], [END]);
    let (inner, sum) = text[..length].split_at(length - 4);
    assert_eq!(crc32c(inner).to_le_bytes(), sum);
    inner.to_vec()
}

/// Puts the module's own bytes into a payload in the manner of `model`, with both checksums right: whatever
/// is wrong with them, only their reader can tell.
pub fn close(inner: &[u8], model: &[u8]) -> Vec<u8> {
    let (body, version) = unseal(model);
    let text = [inner, &crc32c(inner).to_le_bytes()].concat();
    let mut payload = body[..BEFORE].to_vec();
    payload.push(STRING);
    match text.len() {
        n @ 0..0x40 => payload.push(n as u8),
        n @ 0x40..0x4000 => payload.extend([0x40 | (n >> 8) as u8, n as u8]),
        n => {
            payload.push(0x80);
            payload.extend((n as u32).to_be_bytes());
        }
    }
    payload.extend(text);
    payload.push(END);
    seal(&payload, version)
}
