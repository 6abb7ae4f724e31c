// The SSH host key of a project's forge. The first key seen is accepted, here and on every server, until an owner
// trusts a key explicitly: then only that key is accepted everywhere. It is bound to host and port, so a project that
// moves to another forge starts again with the first use.
import { AppError } from '@berth/shared'
import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import type { LookFailure } from '../../forges/git-messages.ts'
import { type HostKey, knownHostsLine, parseHostKeys } from '../../forges/host-keys.ts'
import { hastenRound } from '../../store/forges/repositories.ts'
import { lockProject, type Project, updateProject } from '../../store/projects/projects.ts'
import { loadOwnedProject, loadProject, missing } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { change, emit } from '../core/transaction.ts'
import { ROUNDS_TOPIC } from './reconcile-rounds.ts'

export interface ForgeHostKeyView {
  /** As known_hosts names it; null if the repository is not read over ssh. */
  host: string | null
  trust: 'trusted' | 'first_use' | 'none'
  trustedAt: number | null
  known: HostKey[]
  offered: HostKey[]
  /** Why the forge's keys could not be read. */
  error: LookFailure | null
}

/** The stored keys, without asking the forge. */
function readKnown(ctx: Context, project: Project, host: string) {
  const trusted = parseHostKeys(project.trustedHostKey ?? '', host)
  const known =
    trusted.length > 0 ? trusted : ctx.outbound.git.firstSeenHostKeys(project.id, project.repoUrl)
  const trust =
    trusted.length > 0
      ? ('trusted' as const)
      : known.length > 0
        ? ('first_use' as const)
        : ('none' as const)
  return { trust, trustedAt: trusted.length > 0 ? project.trustedHostKeyAt : null, known }
}

/** Reads the forge's present keys over the network. */
async function look(ctx: Context, caller: Caller, project: Project): Promise<ForgeHostKeyView> {
  await ctx.quotas.narrow.repositoryChecks.take(`user ${caller.userId}`)
  const scan = await ctx.outbound.git.scanHostKeys(project.repoUrl)
  const known = readKnown(ctx, project, scan.host ?? '')
  return { host: scan.host, ...known, offered: scan.offered, error: scan.error }
}

export async function getForgeHostKey(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<ForgeHostKeyView> {
  return look(ctx, caller, await loadProject(ctx.db, caller, projectId, 'read'))
}

/** Trusts the key with this fingerprint if the forge has it now, so exactly the compared key is accepted. */
export async function trustForgeHostKey(
  ctx: Context,
  caller: Caller,
  projectId: number,
  fingerprint: string,
): Promise<ForgeHostKeyView> {
  const asked = await loadOwnedProject(ctx.db, caller, projectId)
  const seen = await look(ctx, caller, asked)
  const chosen = requireOffered(asked, seen, fingerprint)
  const { host } = seen
  await change(ctx, async (c) => {
    const project = await lockProject(c.db, projectId)
    if (!project) throw missing()
    if (project.repoUrl !== asked.repoUrl) {
      throw new AppError('host_key_not_offered', 'The repository address was just changed.')
    }
    await updateProject(c.db, projectId, {
      trustedHostKey: knownHostsLine(host ?? '', chosen),
      trustedHostKeyAt: c.now,
      updatedAt: c.now,
    })
    await hastenRound(c.db, projectId, c.now)
    const { organizationId } = project
    const details = {
      host,
      old: readKnown(ctx, project, host ?? '').known.map((key) => key.fingerprint),
      new: chosen.fingerprint,
      type: chosen.type,
    }
    const subject: [string, number] = ['project', projectId]
    await auditCaller(c, caller, organizationId, 'project.trust_host_key', subject, details)
    emit(c, { organizationId, projectId }, 'project.updated', { host_key: chosen.fingerprint })
    c.notify(ROUNDS_TOPIC)
  })
  const project = await loadProject(ctx.db, caller, projectId, 'read')
  return { ...seen, ...readKnown(ctx, project, host ?? '') }
}

function requireOffered(project: Project, seen: ForgeHostKeyView, fingerprint: string): HostKey {
  if (seen.host === null) {
    throw new AppError(
      'host_key_not_offered',
      `${project.name} does not read its repository over ssh, so there is no host key to trust.`,
    )
  }
  if (seen.error) throw new AppError('forge_unreachable', seen.error.message)
  const chosen = seen.offered.find((key) => key.fingerprint === fingerprint)
  if (chosen) return chosen
  const offered = seen.offered.map((key) => key.fingerprint)
  throw new AppError(
    'host_key_not_offered',
    `${seen.host} has no key with the fingerprint ${fingerprint}. It has ${offered.join(', ')}.`,
    { offered },
  )
}
