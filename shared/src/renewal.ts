// Encodes what an agent signs with its key: to renew an expired certificate, and to say that it leaves. Every field has
// a length prefix, so different tuples never give the same bytes. Signed with ECDSA over SHA-256, DER, base64url.

function encode(texts: readonly string[]): Uint8Array {
  const fields = texts.map((text) => new TextEncoder().encode(text))
  const out = new Uint8Array(fields.reduce((sum, f) => sum + 4 + f.length, 0))
  const view = new DataView(out.buffer)
  let at = 0
  for (const field of fields) {
    view.setUint32(at, field.length)
    out.set(field, at + 4)
    at += 4 + field.length
  }
  return out
}

/** `nonce` and `csr` (PEM) exactly as in the request. */
export const renewalText = (nonce: string, csr: string): Uint8Array =>
  encode(['berth-renew-1', nonce, csr])

/** Berth was uninstalled from the server. `nonce` exactly as in the request. */
export const leavingText = (nonce: string): Uint8Array => encode(['berth-leave-1', nonce])
