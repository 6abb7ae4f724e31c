// Creates the Ed25519 key pair that fetches one project's repository, in OpenSSH's formats. Invariant: private keys
// leave this file only as text for `SecretStore.seal` and for the assignment. There are no other key types and no pass
// phrases; users do not bring their own keys.
import { generateKeyPairSync } from 'node:crypto'
import sshpk from 'sshpk'

interface DeployKey {
  /** OpenSSH private-key file, without a pass phrase. */
  privateKey: string
  /** `ssh-ed25519 AAAA… <project>@berth`, which is registered at the forge. */
  publicLine: string
  /** `SHA256:…`, as ssh-keygen and forges show it. */
  fingerprint: string
}

const COMMENT_CHARS = 64

/** The forge shows the comment: one word, never with a line break in a key file. */
const commentFor = (project: string): string =>
  `${project.replace(/[^A-Za-z0-9._-]+/g, '-').slice(0, COMMENT_CHARS) || 'project'}@berth`

function describe(key: sshpk.PrivateKey): Omit<DeployKey, 'privateKey'> {
  const open = key.toPublic()
  open.comment = key.comment ?? ''
  return {
    publicLine: open.toString('ssh').trim(),
    fingerprint: open.fingerprint('sha256').toString(),
  }
}

export function createDeployKey(project: string): DeployKey {
  const pair = generateKeyPairSync('ed25519')
  const pem = pair.privateKey.export({ format: 'pem', type: 'pkcs8' })
  const key = sshpk.parsePrivateKey(pem, 'pkcs8')
  key.comment = commentFor(project)
  return { privateKey: key.toString('ssh-private'), ...describe(key) }
}

/** `SHA256:…` of a public line. */
export const fingerprintOf = (publicLine: string): string =>
  sshpk.parseKey(publicLine, 'ssh').fingerprint('sha256').toString()
