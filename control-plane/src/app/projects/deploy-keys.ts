// The key pair that reads a project's repository: shown, and replaced when it is no longer trusted. The former public
// line stays visible, so that users know which key to delete at the forge.

import type { Context } from '../../context.ts'
import type { Caller } from '../../domain/core/access.ts'
import { createDeployKey, fingerprintOf } from '../../keys/deploy-key.ts'
import { askForInstall } from '../../store/forges/connections.ts'
import { lockProject, type Project, updateProject } from '../../store/projects/projects.ts'
import { loadProject, missing } from '../core/access.ts'
import { auditCaller } from '../core/audit.ts'
import { change, emit } from '../core/transaction.ts'
import { deployKeyPlace } from './projects.ts'

export interface DeployKeyView {
  publicKey: string
  fingerprint: string
  createdAt: number
  previous: string | null
}

const view = (project: Project): DeployKeyView => ({
  publicKey: project.deployKeyPublic,
  fingerprint: fingerprintOf(project.deployKeyPublic),
  createdAt: project.deployKeyCreatedAt ?? project.createdAt,
  previous: project.previousDeployKeyPublic,
})

export const getDeployKey = async (
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<DeployKeyView> => view(await loadProject(ctx.db, caller, projectId, 'read'))

export async function replaceDeployKey(
  ctx: Context,
  caller: Caller,
  projectId: number,
): Promise<DeployKeyView> {
  const { name } = await loadProject(ctx.db, caller, projectId, 'project:write')
  const key = createDeployKey(name)
  return change(ctx, async (c) => {
    const project = await lockProject(c.db, projectId)
    if (!project) throw missing()
    const { organizationId } = project
    const place = deployKeyPlace(project)
    const columns = {
      deployKeyPublic: key.publicLine,
      deployKeySealed: ctx.secretStore.seal('deploy-key', place, Buffer.from(key.privateKey)),
      deployKeyCreatedAt: c.now,
      previousDeployKeyPublic: project.deployKeyPublic,
      updatedAt: c.now,
    }
    await updateProject(c.db, projectId, columns)
    await askForInstall(c.db, projectId, c.now)
    const details = { fingerprint: key.fingerprint }
    const subject: [string, number] = ['project', projectId]
    await auditCaller(c, caller, organizationId, 'project.deploy_key', subject, details)
    emit(c, { organizationId, projectId }, 'project.updated', {})
    return view({ ...project, ...columns })
  })
}
