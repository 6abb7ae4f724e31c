// The first start: the identity of this installation, and its first user. There is no default password; the first
// administrator needs the token that was printed on the console.
import { randomBytes, randomUUID } from 'node:crypto'
import { AppError } from '@berth/shared'
import type { Scope } from '@berth/shared/api'
import type { Context } from '../../context.ts'
import { normalizeEmail } from '../../domain/people/people.ts'
import { hashPassword } from '../../identity/passwords.ts'
import { hashToken, makeToken } from '../../identity/tokens.ts'
import { createAuthority } from '../../keys/authority.ts'
import type { SecretStore } from '../../keys/secret-store.ts'
import { deleteCodes, insertCode, takeCode } from '../../store/core/one-use-codes.ts'
import type { Db } from '../../store/engine/db.ts'
import {
  findInstallation,
  type Installation,
  insertInstallation,
  markSetupDone,
  updateCookieSecret,
} from '../../store/installation/installation.ts'
import { insertPassword } from '../../store/people/accounts.ts'
import {
  insertMember,
  insertOrganization,
  insertToken,
  insertUser,
} from '../../store/people/people.ts'
import { auditPerson, type Subject } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change } from '../core/transaction.ts'
import { toSlug } from '../people/organizations.ts'

export const CA_PLACE = {
  table: 'installation',
  column: 'ca_key_sealed',
  organizationId: null,
  rowId: 1,
}
const SETUP_TOKEN_MS = 365 * 86_400_000
const SETUP_TOKENS = 100 // of control planes that started since the only one did
const CONSOLE = 'console'
const SETUP_SCOPES: Scope[] = ['read', 'deploy', 'write', 'ssh', 'admin']

/** Finds the installation's row or creates it, with its own certificate authority. */
export async function openInstallation(
  db: Db,
  secretStore: SecretStore,
  now: number,
): Promise<{ installation: Installation; caKeyPem: string }> {
  let installation = await findInstallation(db)
  if (!installation) {
    const authority = await createAuthority(new Date(now))
    await insertInstallation(db, {
      installationId: randomUUID(),
      setupTokenHash: null,
      setupDoneAt: null,
      caCertificate: authority.certificatePem,
      caKeySealed: secretStore.seal('ca', CA_PLACE, Buffer.from(authority.keyPem)),
      createdAt: now,
    })
    installation = await findInstallation(db)
  }
  if (!installation) throw new Error('the installation row could not be made')
  const caKeyPem = Buffer.from(
    await secretStore.open('ca', CA_PLACE, installation.caKeySealed),
  ).toString()
  return { installation, caKeyPem }
}

export const COOKIE_PLACE = { ...CA_PLACE, column: 'cookie_secret_sealed' }

/** The secret that signs the cookies of browser logins: created once, encrypted at rest like every secret. */
export async function openCookieSecret(db: Db, secretStore: SecretStore): Promise<string> {
  const fresh = randomBytes(32).toString('base64url')
  await updateCookieSecret(db, secretStore.seal('cookie', COOKIE_PLACE, Buffer.from(fresh)))
  const sealed = (await findInstallation(db))?.cookieSecretSealed
  if (!sealed) throw new Error('the secret of cookies could not be made')
  return Buffer.from(await secretStore.open('cookie', COOKIE_PLACE, sealed)).toString()
}

/**
 * A new one-time token until one was used. The start of the only control plane invalidates the former ones; several
 * that start together each print one that works.
 */
export async function renewSetupToken(ctx: Context): Promise<string | undefined> {
  if (await isSetupDone(ctx.db)) return undefined
  const token = makeToken('berth_setup_')
  const isOnly = (await ctx.replicas.listLive()).every(({ id }) => id === ctx.replicaId)
  await change(ctx, async ({ db, now }) => {
    if (isOnly) await deleteCodes(db, 'setup')
    const code = {
      hash: hashToken(token),
      kind: 'setup' as const,
      holder: CONSOLE,
      body: '',
      expiresAt: now + SETUP_TOKEN_MS,
    }
    await insertCode(db, code, { perHolder: SETUP_TOKENS, now })
  })
  return token
}

/** Returns true for exactly one caller. */
async function useSetupToken({ db, now }: Change, token: string): Promise<boolean> {
  const asked = { kind: 'setup', holder: CONSOLE, hash: hashToken(token), now } as const
  if ((await takeCode(db, asked)) === undefined || !(await markSetupDone(db, now))) return false
  await deleteCodes(db, 'setup')
  return true
}

export const isSetupDone = async (db: Db): Promise<boolean> =>
  (await findInstallation(db))?.setupDoneAt != null

interface SetUp {
  user: { id: number; name: string; email: string }
  organization: { id: number; name: string; slug: string }
  /** Undefined if none was requested. */
  token: string | undefined
  expiresAt: number | undefined
}

export async function completeSetup(
  ctx: Context,
  asked: {
    token: string
    name: string
    email: string
    organization: string
    password?: string | undefined
    /** Programs continue with a token, browsers with the password. */
    withToken: boolean
  },
  from: { address: string; requestId: string },
): Promise<SetUp> {
  if (await isSetupDone(ctx.db)) {
    throw new AppError('setup_done', 'This installation has its first administrator already.')
  }
  // slow on purpose, so it runs outside the transaction
  const hash = asked.password === undefined ? undefined : await hashPassword(asked.password)
  return change(ctx, async (c) => {
    const { db, now } = c
    if (!(await useSetupToken(c, asked.token))) {
      throw new AppError(
        'setup_token_invalid',
        'The set-up token is not the one printed at the last start of the control plane.',
      )
    }
    const { name } = asked
    const email = normalizeEmail(asked.email)
    const userId = await insertUser(db, { name, email, isPlatformAdmin: 1, createdAt: now })
    if (hash !== undefined) await insertPassword(db, userId, hash, now)
    const slug = toSlug(asked.organization)
    const organization = { name: asked.organization, slug }
    const organizationId = await insertOrganization(db, { ...organization, createdAt: now })
    await insertMember(db, { organizationId, userId, role: 'owner', createdAt: now })
    const made = asked.withToken ? await giveFirstToken(db, userId, now) : undefined
    const who = { userId, name, origin: { tokenId: null, ...from } }
    const subject: Subject = ['organization', organizationId]
    await auditPerson(c, who, organizationId, 'setup', subject, { slug })
    return {
      user: { id: userId, name, email },
      organization: { id: organizationId, ...organization },
      token: made?.token,
      expiresAt: made?.expiresAt,
    }
  })
}

async function giveFirstToken(
  db: Db,
  userId: number,
  now: number,
): Promise<{ token: string; expiresAt: number }> {
  const token = makeToken('berth_pat_')
  const expiresAt = now + SETUP_TOKEN_MS
  await insertToken(db, {
    userId,
    kind: 'personal',
    name: 'first administrator',
    hash: hashToken(token),
    hint: token.slice(-4),
    scopes: SETUP_SCOPES,
    organizationId: null,
    expiresAt,
    createdAt: now,
  })
  return { token, expiresAt }
}
