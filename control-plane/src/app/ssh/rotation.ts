// The administrator's side of rotating an SSH authority: the present state, what the next step waits for, and the three
// steps. Private keys are never shown.

import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import type { AuthorityKind } from '../../keys/ssh-signers.ts'
import {
  listPublishedAuthorities,
  listServersSignedBy,
  listUnconfirmedServers,
  type SshAuthority,
} from '../../store/ssh/authorities.ts'
import { requirePlatformAdmin } from '../core/access.ts'
import { byCaller } from '../core/audit.ts'
import {
  adoptSshAuthority,
  announceSshAuthority,
  type Haste,
  retireSshAuthority,
} from './authorities.ts'

export interface SshAuthorityView {
  authority: SshAuthority
  waitsFor: { id: number; name: string }[]
}

async function view(ctx: Context, authority: SshAuthority): Promise<SshAuthorityView> {
  const { kind, phase, id } = authority
  if (kind === 'user' && phase === 'announced') {
    return { authority, waitsFor: await listUnconfirmedServers(ctx.db, id) }
  }
  if (kind === 'host' && phase === 'retiring') {
    return { authority, waitsFor: await listServersSignedBy(ctx.db, id, ctx.clock.now()) }
  }
  return { authority, waitsFor: [] }
}

export async function listSshAuthorities(
  ctx: Context,
  caller: Caller,
): Promise<SshAuthorityView[]> {
  requirePlatformAdmin(caller)
  const users = await listPublishedAuthorities(ctx.db, 'user')
  const hosts = await listPublishedAuthorities(ctx.db, 'host')
  return Promise.all([...users, ...hosts].map((authority) => view(ctx, authority)))
}

/** Idempotent: repeated, it returns the authority that is already announced. */
export async function announceAuthority(
  ctx: Context,
  caller: Caller,
  kind: AuthorityKind,
): Promise<SshAuthorityView> {
  requirePlatformAdmin(caller)
  return view(ctx, await announceSshAuthority(ctx, byCaller(caller), kind))
}

export async function adoptAuthority(
  ctx: Context,
  caller: Caller,
  kind: AuthorityKind,
  haste: Haste,
): Promise<SshAuthorityView> {
  requirePlatformAdmin(caller)
  return view(ctx, await adoptSshAuthority(ctx, byCaller(caller), kind, haste))
}

export async function retireAuthority(
  ctx: Context,
  caller: Caller,
  kind: AuthorityKind,
  haste: Pick<Haste, 'force'>,
): Promise<void> {
  requirePlatformAdmin(caller)
  await retireSshAuthority(ctx, byCaller(caller), kind, haste)
}
