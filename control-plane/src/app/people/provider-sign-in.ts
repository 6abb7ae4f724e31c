// A person whom the OpenID Connect provider vouches for: which account is theirs, and whether they get a new one. An
// existing account is linked only if the provider verified its e-mail address.
import { AppError } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { From } from '../../domain/core/access.ts'
import { normalizeEmail } from '../../domain/people/people.ts'
import { decideProviderUser } from '../../domain/people/provider-user.ts'
import { findProviderAccount, insertProviderAccount } from '../../store/people/accounts.ts'
import { findInvitationTo } from '../../store/people/invitations.ts'
import { insertUser } from '../../store/people/people.ts'
import { findUser, findUserByEmail } from '../../store/people/users.ts'
import { auditCaller } from '../core/audit.ts'
import { change } from '../core/transaction.ts'
import { personAsCaller } from './sign-in.ts'

/** The name of the only provider, in rows and addresses. */
export const PROVIDER = 'oidc'

export interface ProviderUser {
  /** Issuer and subject. */
  subject: string
  email: string | undefined
  isVerified: boolean
  name: string | undefined
}

const REFUSALS = {
  no_email: (name: string) =>
    `${name} sent no e-mail address. An administrator must let it send the claim "email".`,
  not_verified: (name: string, email: string) =>
    `${name} has not verified the address ${email}. Verify it there, then sign in again.`,
  domain: (_name: string, email: string) =>
    `Addresses such as ${email} may not sign in here. Ask an administrator of Berth.`,
  no_account: (_name: string, email: string) =>
    `There is no account for ${email}. Ask an administrator for an invitation.`,
  disabled: () => 'Your account is disabled.',
} as const

const cleanName = (name: string | undefined, email: string): string =>
  (name ?? '')
    .replaceAll(/\p{Cc}/gu, '')
    .trim()
    .slice(0, 100) ||
  (email.split('@')[0] ?? email)

/** Links or makes the account that the library then finds by its subject. Throws the reason of a refusal. */
export async function admitProviderUser(
  ctx: Context,
  { subject, isVerified, ...claims }: ProviderUser,
  from: From,
): Promise<{ name: string; email: string }> {
  const { oidc } = ctx.config
  if (!oidc) throw new AppError('not_found', "Not found, or you don't have access.")
  const email = claims.email === undefined ? '' : normalizeEmail(claims.email)
  return change(ctx, async (c) => {
    const linkedTo = await findProviderAccount(c.db, PROVIDER, subject)
    const linked = linkedTo === undefined ? undefined : await findUser(c.db, linkedTo)
    const sameEmail = email === '' ? undefined : await findUserByEmail(c.db, email)
    const user = linked ?? sameEmail
    const verdict = decideProviderUser({
      email,
      isVerified,
      isLinked: linked !== undefined,
      hasAccount: sameEmail !== undefined,
      isDisabled: user !== undefined && user.disabledAt !== null,
      isInvited: email !== '' && (await findInvitationTo(c.db, email, c.now)),
      domains: oidc.domains,
      createsAccounts: oidc.createsAccounts,
    })
    switch (verdict) {
      case 'enter':
        break
      case 'link':
      case 'create': {
        const name = user?.name ?? cleanName(claims.name, email)
        const id = user?.id ?? (await insertUser(c.db, { name, email, createdAt: c.now }))
        await insertProviderAccount(c.db, { userId: id, provider: PROVIDER, subject }, c.now)
        const caller = personAsCaller({ id, name }, from)
        const verb = verdict === 'link' ? 'account.link' : 'account.create'
        await auditCaller(c, caller, null, verb, ['user', id], { provider: oidc.name })
        return { name, email: user?.email ?? email }
      }
      default:
        throw new AppError('provider_refused', REFUSALS[verdict](oidc.name, email), {
          reason: verdict,
        })
    }
    if (!user) throw new Error('a linked account has no user')
    return { name: user.name, email: user.email }
  })
}
