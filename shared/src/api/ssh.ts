// SSH certificates: issued for a public key, listed without it, revoked by serial.
import { z } from 'zod'
import { Id, IdParams, Paging, Person, Time } from './fields.ts'
import { ServerRef } from './server.ts'

export const SSH_AUTHORITY_KINDS = ['user', 'host'] as const

/** A key that signs certificates of users or of servers, and its phase in a rotation. */
export const SshAuthority = z.object({
  id: Id,
  kind: z.enum(SSH_AUTHORITY_KINDS),
  /** Announced: published, does not sign yet. Retiring: published, no longer signs. */
  phase: z.enum(['announced', 'signing', 'retiring']),
  fingerprint: z.string(),
  public_key: z.string(),
  created_at: Time,
  signing_at: Time.nullable(),
  retiring_at: Time.nullable(),
  /** Servers that block the next step: not confirmed yet, or still showing a certificate of it. */
  waits_for: z.array(z.object({ id: Id, name: z.string() })),
})
export type SshAuthority = z.infer<typeof SshAuthority>

export const SshAuthorityParams = z.object({ kind: z.enum(SSH_AUTHORITY_KINDS) })

export const SshAuthorityAdoption = z
  .strictObject({
    /** Names of servers to skip instead of waiting for them. */
    without: z.array(z.string().min(1).max(64)).max(100).optional(),
    /** The former key may be compromised: waits for no server. */
    force: z.boolean().optional(),
  })
  .nullish()
export const SshAuthorityRetirement = z.strictObject({ force: z.boolean().optional() }).nullish()

export const SSH_PURPOSES = ['logs', 'artifact', 'shell', 'forward', 'copy'] as const
export type SshPurpose = (typeof SSH_PURPOSES)[number]
const SSH_VERBS = ['logs', 'artifact', 'shell', 'exec', 'forward', 'copy', 'server'] as const

/** A random number of 63 bits; JSON numbers cannot hold it, so it is a string everywhere. */
const Serial = z.string().regex(/^[1-9][0-9]{0,18}$/, 'must be the serial of a certificate')

export const SshCertificateRequest = z.strictObject({
  /** One line as in a .pub file; the control plane parses it strictly. */
  public_key: z.string().min(1).max(16_384),
  purpose: z.enum(SSH_PURPOSES).optional(),
  environment_id: Id.nullish(),
  ttl_seconds: z.int().min(60).max(3_600).optional(),
})
export type SshCertificateRequest = z.infer<typeof SshCertificateRequest>

const Grant = z.object({ environment_id: Id.nullable(), can: z.array(z.enum(SSH_VERBS)) })

export const SshCertificate = z.object({
  certificate: z.string(),
  serial: Serial,
  key_id: z.string(),
  principals: z.array(z.string()),
  grant: Grant,
  extensions: z.array(z.string()),
  valid_after: Time,
  valid_before: Time,
  server: ServerRef,
  host: z.string(),
  port: z.int(),
  user: z.string(),
  host_alias: z.string(),
  host_ca: z.array(z.string()),
})
export type SshCertificate = z.infer<typeof SshCertificate>

const SSH_CERTIFICATE_STATUSES = ['active', 'expired', 'revoked', 'unsigned'] as const
export type SshCertificateStatus = (typeof SSH_CERTIFICATE_STATUSES)[number]

/** What is stored of an issued certificate: holder, purpose, expiry. No key material. */
export const IssuedSshCertificate = z.object({
  serial: Serial,
  key_id: z.string(),
  status: z.enum(SSH_CERTIFICATE_STATUSES),
  purpose: z.enum(SSH_PURPOSES),
  grant: Grant,
  holder: Person,
  principals: z.array(z.string()),
  user: z.string(),
  key_type: z.string(),
  fingerprint: z.string(),
  address: z.string(),
  issued_at: Time,
  valid_after: Time,
  valid_before: Time,
  session_until: Time,
  revoked_at: Time.nullable(),
  revoked_by: Person.nullable(),
  revoke_reason: z.string().nullable(),
})
export type IssuedSshCertificate = z.infer<typeof IssuedSshCertificate>

/** A certificate that can open a session now, or holds one. */
export const LiveSshAccess = IssuedSshCertificate.extend({
  server: ServerRef,
  environment: z.string().nullable(),
  sessions: z.array(
    z.object({
      verb: z.string(),
      started_at: Time,
    }),
  ),
})
export type LiveSshAccess = z.infer<typeof LiveSshAccess>

export const LiveSshQuery = z.object({
  everyone: z.enum(['true', 'false']).optional(),
})

export const IssuedSshQuery = Paging
export const SerialParams = IdParams.extend({ serial: Serial })

/** One key of the authority that signs servers' host keys; two during a rotation. */
export const SshHostAuthority = z.object({
  public_key: z.string(),
  fingerprint: z.string(),
  created_at: Time,
})
export type SshHostAuthority = z.infer<typeof SshHostAuthority>
