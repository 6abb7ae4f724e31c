// Streams in the age format (age-encryption.org/v1) with a pair of keys: authenticated chunks, numbered, the last one
// marked, so a changed or missing byte is noticed. The program `age` opens them without Berth.
import { Readable } from 'node:stream'
import type { ReadableStream as WebStream } from 'node:stream/web'
import { Decrypter, Encrypter, generateX25519Identity, identityToRecipient } from 'age-encryption'

const toNode = (stream: ReadableStream<Uint8Array>): Readable =>
  Readable.fromWeb(stream as unknown as WebStream<Uint8Array>)

export async function makeKeyPair(): Promise<{ identity: string; recipient: string }> {
  const identity = await generateX25519Identity()
  return { identity, recipient: await identityToRecipient(identity) }
}

/** For a public key (`age1…`): who encrypts cannot decrypt. */
export async function encryptFor(recipient: string, plain: Readable): Promise<Readable> {
  const encrypter = new Encrypter()
  encrypter.addRecipient(recipient)
  return toNode(await encrypter.encrypt(Readable.toWeb(plain) as ReadableStream<Uint8Array>))
}

/** Undefined: it was encrypted for another key. Throws if it is damaged. */
export async function decryptWith(
  identity: string,
  sealed: Readable,
): Promise<Readable | undefined> {
  const decrypter = new Decrypter()
  decrypter.addIdentity(identity)
  try {
    return toNode(await decrypter.decrypt(Readable.toWeb(sealed) as ReadableStream<Uint8Array>))
  } catch (error) {
    sealed.destroy()
    if (/no identity matched/i.test(String(error))) return undefined
    throw error
  }
}
