// Passkeys (WebAuthn): the options a browser needs, and the check of its answer. A passkey belongs to the hostname of
// the control plane; the person must unlock it (user verification), so that it counts as two factors.
import { randomBytes } from 'node:crypto'
import { isIP } from 'node:net'
import { AppError, PEOPLE } from '@berth/shared'
import {
  generateAuthenticationOptions,
  generateRegistrationOptions,
  verifyAuthenticationResponse,
  verifyRegistrationResponse,
} from '@simplewebauthn/server'
import { z } from 'zod'

/** What a browser sends; the library checks the contents. */
const text = z.string().max(PEOPLE.authBodyBytes)
const answer = { id: text, rawId: text, type: z.literal('public-key') }
const rest = {
  authenticatorAttachment: z.enum(['platform', 'cross-platform']).nullish(),
  clientExtensionResults: z.record(z.string(), z.unknown()),
}
export const PasskeyMade = z.object({
  ...answer,
  ...rest,
  response: z.object({
    clientDataJSON: text,
    attestationObject: text,
    transports: z.array(text).max(10).optional(),
  }),
})
export const PasskeyUsed = z.object({
  ...answer,
  ...rest,
  response: z.object({
    clientDataJSON: text,
    authenticatorData: text,
    signature: text,
    userHandle: text.nullish(),
  }),
})
export type PasskeyMade = z.infer<typeof PasskeyMade>
export type PasskeyUsed = z.infer<typeof PasskeyUsed>

/** Says why passkeys cannot work at this address; undefined if they do. */
export function passkeyObstacle(baseUrl: string): string | undefined {
  const { protocol, hostname, host } = new URL(baseUrl)
  const isLocal = hostname === 'localhost' || hostname.endsWith('.localhost')
  if (isIP(hostname.replace(/^\[(.*)\]$/, '$1')) !== 0) {
    return `Passkeys need a name, and ${host} is an address. Open Berth by its name.`
  }
  if (protocol === 'https:' || isLocal) return undefined
  return `Passkeys need HTTPS, and Berth runs at ${baseUrl}. An administrator can set up HTTPS.`
}

function relyingParty(baseUrl: string): { id: string; origin: string } {
  const obstacle = passkeyObstacle(baseUrl)
  if (obstacle !== undefined) throw new AppError('passkeys_unavailable', obstacle)
  const { hostname, origin } = new URL(baseUrl)
  return { id: hostname, origin }
}

const challenge = (): Uint8Array<ArrayBuffer> => new Uint8Array(randomBytes(32))

type Known = readonly { credentialId: string; transports: string }[]
const listed = (known: Known) =>
  known.map(({ credentialId: id, transports }) => ({
    id,
    transports: transports.split(' ').filter(Boolean),
  }))

export const optionsToAdd = (
  baseUrl: string,
  user: { id: number; name: string; email: string },
  known: Known,
) =>
  generateRegistrationOptions({
    rpName: 'Berth',
    rpID: relyingParty(baseUrl).id,
    userName: user.email,
    userDisplayName: user.name,
    userID: new TextEncoder().encode(`user-${user.id}`),
    challenge: challenge(),
    timeout: PEOPLE.passkeyChallengeMs,
    attestationType: 'none',
    excludeCredentials: listed(known),
    // stored on the device, so that it works without an e-mail address
    authenticatorSelection: { residentKey: 'required', userVerification: 'required' },
  })

/** Without known passkeys, the browser offers all that it has for this hostname. */
export const optionsToUse = (baseUrl: string, known: Known = []) =>
  generateAuthenticationOptions({
    rpID: relyingParty(baseUrl).id,
    challenge: challenge(),
    timeout: PEOPLE.passkeyChallengeMs,
    userVerification: 'required',
    ...(known.length > 0 ? { allowCredentials: listed(known) } : {}),
  })

/** The library throws plain errors if an answer is wrong. */
const refuse = (): never => {
  throw new AppError('passkey_refused', 'The passkey was not accepted. Try again.')
}

/** `isOpen` takes the challenge; it works once. */
type Taken = (challenge: string) => Promise<boolean>

export async function checkMade(baseUrl: string, response: PasskeyMade, isOpen: Taken) {
  const { id, origin } = relyingParty(baseUrl)
  const checked = await verifyRegistrationResponse({
    response: response as Parameters<typeof verifyRegistrationResponse>[0]['response'],
    expectedChallenge: isOpen,
    expectedOrigin: origin,
    expectedRPID: id,
    requireUserVerification: true,
  }).catch(refuse)
  if (!checked.verified) return refuse()
  const { credential } = checked.registrationInfo
  return {
    credentialId: credential.id,
    publicKey: Buffer.from(credential.publicKey).toString('base64url'),
    counter: credential.counter,
    transports: (credential.transports ?? []).join(' '),
  }
}

/** Returns the new counter. */
export async function checkUsed(
  baseUrl: string,
  response: PasskeyUsed,
  passkey: { credentialId: string; publicKey: string; counter: number },
  isOpen: Taken,
): Promise<number> {
  const { id, origin } = relyingParty(baseUrl)
  const checked = await verifyAuthenticationResponse({
    response: response as Parameters<typeof verifyAuthenticationResponse>[0]['response'],
    expectedChallenge: isOpen,
    expectedOrigin: origin,
    expectedRPID: id,
    credential: {
      id: passkey.credentialId,
      publicKey: new Uint8Array(Buffer.from(passkey.publicKey, 'base64url')),
      counter: passkey.counter,
    },
    requireUserVerification: true,
  }).catch(refuse)
  return checked.verified ? checked.authenticationInfo.newCounter : refuse()
}
