// The two SSH authorities: created when first needed, and rotated in overlapping phases, so that no user is locked out.
// Each phase is one idempotent transaction on a row that records the progress; a crash between two phases leaves a
// working state. By design, a private key cannot be read or imported.
import { AppError, SSH } from '@berth/shared'
import type { Signer } from '@berth/shared/ssh'
import type { Context } from '../../context.ts'
import type { AuthorityKind } from '../../keys/ssh-signers.ts'
import type { Db } from '../../store/engine/db.ts'
import {
  findSshAuthority,
  insertAuthorityConfirmations,
  insertSshAuthority,
  listLiveAgentIds,
  listPublishedAuthorities,
  listServersSignedBy,
  listUnconfirmedServers,
  lockSshRotation,
  moveSshAuthority,
  type SshAuthority,
} from '../../store/ssh/authorities.ts'
import { type Actor, audit, BERTH } from '../core/audit.ts'
import type { Change } from '../core/change.ts'
import { change, trustTopic } from '../core/transaction.ts'

const KINDS: readonly AuthorityKind[] = ['user', 'host']

const note = (c: Change, by: Actor, phase: string, authority: SshAuthority): Promise<void> => {
  const { kind, fingerprint, id } = authority
  const details = { kind, fingerprint }
  return audit(c, by, null, `ssh_authority.${phase}`, ['ssh_authority', id], details)
}

/** Creates the missing ones; costs one read when both exist. */
export async function ensureSshAuthorities(ctx: Context): Promise<void> {
  const missing = await listMissing(ctx.db)
  if (missing.length === 0) return
  await change(ctx, async (c) => {
    for (const kind of await listMissing(c.db)) {
      const made = { ...ctx.sshSigners.create(kind), phase: 'signing' as const }
      const isOurs = await insertSshAuthority(c.db, { ...made, createdAt: c.now, signingAt: c.now })
      if (isOurs) await note(c, BERTH, 'create', await getSigning(c.db, kind))
    }
  })
}

async function listMissing(db: Db): Promise<AuthorityKind[]> {
  const found = await Promise.all(KINDS.map((kind) => findSshAuthority(db, kind, 'signing')))
  return KINDS.filter((_, n) => !found[n])
}

async function getSigning(db: Db, kind: AuthorityKind): Promise<SshAuthority> {
  const authority = await findSshAuthority(db, kind, 'signing')
  if (!authority) throw new Error(`there is no SSH ${kind} authority`)
  return authority
}

/** The keys that others must know now, created if there are none yet. */
export async function publishSshAuthorities(
  ctx: Context,
  kind: AuthorityKind,
): Promise<SshAuthority[]> {
  await ensureSshAuthorities(ctx)
  return listPublishedAuthorities(ctx.db, kind)
}

/** Like `publishSshAuthorities`, but read-only: creates no key. */
export const listHostAuthorities = (ctx: Context): Promise<SshAuthority[]> =>
  listPublishedAuthorities(ctx.db, 'host')

/** The authority that signs now, read inside the transaction. */
export async function openSshSigner(
  ctx: Context,
  db: Db,
  kind: AuthorityKind,
): Promise<{ authority: SshAuthority; signer: Signer }> {
  const authority = await getSigning(db, kind)
  const { keySealed } = authority
  if (keySealed === null) throw new Error(`the SSH ${kind} authority has no key`)
  return { authority, signer: await ctx.sshSigners.open({ ...authority, keySealed }) }
}

/** An agent reported that it trusts these. */
export const confirmSshAuthorities = (
  c: Change,
  agentId: string,
  authorities: readonly SshAuthority[],
): Promise<void> =>
  insertAuthorityConfirmations(
    c.db,
    agentId,
    authorities.map((authority) => authority.id),
    c.now,
  )

// ---- rotation: announce → adopt → retire

async function notifyAgents(c: Change): Promise<void> {
  for (const id of await listLiveAgentIds(c.db)) c.notify(trustTopic(id))
}

/** Stores the new key and publishes it beside the old one, which still signs. */
export async function announceSshAuthority(
  ctx: Context,
  by: Actor,
  kind: AuthorityKind,
): Promise<SshAuthority> {
  await ensureSshAuthorities(ctx)
  return change(ctx, async (c) => {
    await lockSshRotation(c.db, kind)
    if (await findSshAuthority(c.db, kind, 'retiring')) {
      const message = `The former SSH ${kind} authority is not retired yet. Retire it first.`
      throw new AppError('confirmation_required', message)
    }
    const made = { ...ctx.sshSigners.create(kind), phase: 'announced' as const }
    const isNew = await insertSshAuthority(c.db, { ...made, createdAt: c.now })
    const announced = await findSshAuthority(c.db, kind, 'announced')
    if (!announced) throw new Error('unreachable: one was announced')
    if (isNew) {
      await note(c, by, 'announce', announced)
      await notifyAgents(c)
    }
    return announced
  })
}

const list = (servers: { name: string }[]): string => servers.map((s) => s.name).join(', ')

export interface Haste {
  /** Names of servers whose confirmation is not needed. */
  without?: readonly string[]
  /** The key may be compromised, so do not wait for any server. */
  force?: boolean
}

/** The announced key signs from now on; the former key stays published. */
export async function adoptSshAuthority(
  ctx: Context,
  by: Actor,
  kind: AuthorityKind,
  haste: Haste = {},
): Promise<SshAuthority> {
  return change(ctx, async (c) => {
    await lockSshRotation(c.db, kind)
    const announced = await findSshAuthority(c.db, kind, 'announced')
    if (!announced) throw new AppError('not_found', `No new SSH ${kind} authority is announced.`)
    const waiting = kind === 'user' ? await listUnconfirmedServers(c.db, announced.id) : []
    const missed = waiting.filter((server) => !haste.without?.includes(server.name))
    if (missed.length > 0 && !haste.force) {
      const message = `Not confirmed by ${list(missed)}: certificates of the new authority would be refused there.`
      throw new AppError('confirmation_required', message, { servers: missed })
    }
    const former = await getSigning(c.db, kind)
    const moved =
      (await moveSshAuthority(c.db, former, 'retiring', c.now)) &&
      (await moveSshAuthority(c.db, announced, 'signing', c.now))
    if (!moved)
      throw new AppError('not_found', 'Another administrator has just advanced this rotation.')
    await note(c, by, 'adopt', announced)
    await notifyAgents(c)
    return getSigning(c.db, kind)
  })
}

/** Stops publishing the former key and destroys it. */
export async function retireSshAuthority(
  ctx: Context,
  by: Actor,
  kind: AuthorityKind,
  haste: Pick<Haste, 'force'> = {},
): Promise<void> {
  await change(ctx, async (c) => {
    await lockSshRotation(c.db, kind)
    const former = await findSshAuthority(c.db, kind, 'retiring')
    if (!former) throw new AppError('not_found', `No SSH ${kind} authority is being retired.`)
    const waitsFor = haste.force ? undefined : await reasonToWait(c, former)
    if (waitsFor) throw new AppError('confirmation_required', waitsFor)
    if (!(await moveSshAuthority(c.db, former, 'retired', c.now)))
      throw new AppError('not_found', 'Another administrator has just advanced this rotation.')
    await note(c, by, 'retire', former)
    await notifyAgents(c)
  })
}

/** Certificates of users expire by themselves; servers must have fetched new host certificates. */
async function reasonToWait(c: Change, former: SshAuthority): Promise<string | undefined> {
  if (former.kind === 'host') {
    const signed = await listServersSignedBy(c.db, former.id, c.now)
    return signed.length > 0 ? `${list(signed)} still shows a certificate of it.` : undefined
  }
  const end = (former.retiringAt ?? c.now) + SSH.ttlMaxSeconds * 1_000
  return c.now < end
    ? `Certificates of it are valid until ${new Date(end).toISOString()} at the latest.`
    : undefined
}
