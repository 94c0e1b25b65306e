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
