// Encodes what an agent signs with its old key to renew an expired certificate. Every field has a length prefix, so
// different tuples never give the same bytes. Signed with ECDSA over SHA-256, DER, base64url.
const LABEL = 'berth-renew-1'

/** `nonce` and `csr` (PEM) exactly as in the request. */
export function renewalText(nonce: string, csr: string): Uint8Array {
  const fields = [LABEL, nonce, csr].map((text) => new TextEncoder().encode(text))
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
