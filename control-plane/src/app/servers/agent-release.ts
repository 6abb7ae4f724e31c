// The release of the agents beside this control plane: its signed manifest, and whether it can be offered.
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { VERSION } from '@berth/shared'
import {
  AGENT_MANIFEST,
  AGENT_MANIFEST_SIGNATURE,
  type AgentManifest,
  readAgentManifest,
} from '@berth/shared/release'
import type { Context } from '../../context.ts'
import { installScript, listAgentPackages } from './agent-packages.ts'

export interface AgentRelease {
  bytes: Buffer
  signature: Buffer
  manifest: AgentManifest
}

type Found = { kind: 'signed'; release: AgentRelease } | { kind: 'none'; reason: string }

const none = (reason: string): Found => ({ kind: 'none', reason })

const read = (file: string): Promise<Buffer | undefined> =>
  readFile(file).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })

/** Read again for each use: an operator may add the signature while the control plane runs. */
export async function findAgentRelease(ctx: Pick<Context, 'config'>): Promise<Found> {
  const folder = ctx.config.agentPackages
  const bytes = await read(join(folder, AGENT_MANIFEST))
  if (!bytes) {
    return none(
      'This control plane was not installed from a release, so its agents have no signed manifest.',
    )
  }
  const signature = await read(join(folder, AGENT_MANIFEST_SIGNATURE))
  if (!signature) {
    return none(`The release is not signed: ${AGENT_MANIFEST_SIGNATURE} is missing in ${folder}.`)
  }
  const manifest = readAgentManifest(bytes)
  if (manifest.version !== VERSION) {
    return none(
      `The packages in ${folder} are those of ${manifest.version}, and this is ${VERSION}.`,
    )
  }
  const packages = await listAgentPackages(ctx)
  const isThere = Object.values(manifest.platforms).every(({ file, sha256 }) =>
    packages.some((one) => one.name === file && one.sha256 === sha256),
  )
  if (!isThere) return none(`The packages in ${folder} are not those of the signed manifest.`)
  return { kind: 'signed', release: { bytes, signature, manifest } }
}

/** The line that updates an agent by hand; undefined if no agent was packaged here. */
export async function updateCommand(ctx: Context): Promise<string | undefined> {
  const script = await installScript(ctx)
  if (!script) return undefined
  const digest = createHash('sha256').update(script).digest('hex')
  return `curl -fsSLO ${ctx.baseUrl}/install.sh && echo "${digest}  install.sh" | sha256sum -c && sh install.sh`
}
