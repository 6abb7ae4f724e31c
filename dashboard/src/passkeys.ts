// Passkeys in this browser: the server's options go in, the answer for the server comes out.
import { Refused } from './api.ts'
import { hasPasskeys } from './passkey-support.ts'

function explain(error: unknown): never {
  const name = error instanceof Error ? error.name : ''
  if (name === 'InvalidStateError') {
    throw new Refused('This device already has a passkey for your account.')
  }
  if (name === 'NotAllowedError' || name === 'AbortError') {
    throw new Refused('The passkey was not used. Try again.')
  }
  if (name === 'SecurityError') {
    throw new Refused(
      'Passkeys do not work at this address. Open Berth by its own name over HTTPS.',
    )
  }
  throw error
}

const requireSupport = (): void => {
  if (!hasPasskeys()) throw new Refused('This browser is too old for passkeys. Update it.')
}

/** The browser writes what the server reads; the types of both are wider than they need to be. */
const answerOf = <T>(credential: Credential | null): T => {
  if (!credential) throw new Refused('The passkey was not used. Try again.')
  return (credential as PublicKeyCredential).toJSON() as T
}

export async function makePasskey<T>(options: object): Promise<T> {
  requireSupport()
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
    options as PublicKeyCredentialCreationOptionsJSON,
  )
  return answerOf<T>(await navigator.credentials.create({ publicKey }).catch(explain))
}

export async function askPasskey<T>(options: object): Promise<T> {
  requireSupport()
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(
    options as PublicKeyCredentialRequestOptionsJSON,
  )
  return answerOf<T>(await navigator.credentials.get({ publicKey }).catch(explain))
}
