// The packaged agents and the client next to this control plane (a release, or `npm run bundle`), and the scripts that
// install them. A digest is computed once for each state of a file; a replaced file is hashed again.
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { VERSION } from '@berth/shared'
import type { Context } from '../../context.ts'
import { CLIENT_FILE, renderClientScript } from '../../domain/servers/client-script.ts'
import { type PackagedAgent, renderInstallScript } from '../../domain/servers/install-script.ts'
import {
  findJoinProblems,
  type JoinProblem,
  missingPlatforms,
} from '../../domain/servers/join-check.ts'

const PACKAGE = /^berth-agent-(linux-(?:x64|arm64))\.tar\.gz$/

const digests = new Map<string, Promise<string>>()

async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}

/** Cached by path, size and time, so that a replaced package gets a new digest. */
async function digestOf(path: string): Promise<{ sha256: string; bytes: number }> {
  const { size, mtimeMs } = await stat(path)
  const key = `${path}:${size}:${mtimeMs}`
  let digest = digests.get(key)
  if (!digest) {
    for (const known of digests.keys()) if (known.startsWith(`${path}:`)) digests.delete(known)
    digest = hashFile(path)
    digests.set(key, digest)
    digest.catch(() => digests.delete(key))
  }
  return { sha256: await digest, bytes: size }
}

interface StoredPackage extends PackagedAgent {
  path: string
  bytes: number
}

export async function listAgentPackages(ctx: Pick<Context, 'config'>): Promise<StoredPackage[]> {
  const folder = ctx.config.agentPackages
  const names = await readdir(folder).catch(() => []) // no agent was packaged here
  const found: StoredPackage[] = []
  for (const name of names.toSorted()) {
    const platform = PACKAGE.exec(name)?.[1]
    if (!platform) continue
    const path = join(folder, name)
    found.push({ platform, name, path, ...(await digestOf(path)) })
  }
  return found
}

/** Undefined if no agent was packaged here. */
export async function installScript(ctx: Context): Promise<string | undefined> {
  const packages = await listAgentPackages(ctx)
  if (packages.length === 0) return undefined
  return renderInstallScript({ baseUrl: ctx.baseUrl, version: VERSION, packages })
}

/** Undefined if the client was not bundled here. */
export async function findClient(
  ctx: Context,
): Promise<{ path: string; sha256: string; bytes: number } | undefined> {
  const path = join(ctx.config.agentPackages, CLIENT_FILE)
  try {
    return { path, ...(await digestOf(path)) }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Undefined if the client was not bundled here. */
export async function clientScript(ctx: Context): Promise<string | undefined> {
  const client = await findClient(ctx)
  if (!client) return undefined
  const packages = await listAgentPackages(ctx)
  return renderClientScript({
    baseUrl: ctx.baseUrl,
    version: VERSION,
    sha256: client.sha256,
    packages,
  })
}

interface JoinCheck {
  problems: JoinProblem[]
  /** Processors without a package: `arm64`. */
  missing: string[]
}

/** Whether a join command would work on a server with this name, before a token is made for it. */
export async function checkJoin(ctx: Context, hostname: string): Promise<JoinCheck> {
  const platforms = (await listAgentPackages(ctx)).map((one) => one.platform)
  const { baseUrl, agentEndpoints } = ctx
  const problems = findJoinProblems({ baseUrl, agentEndpoints, hostname, platforms })
  return { problems, missing: platforms.length === 0 ? [] : missingPlatforms(platforms) }
}

/**
 * The command for the new server. It checks the script against a digest from a separate channel, and the token is no
 * argument, which every account of the server could read.
 */
export async function joinCommand(ctx: Context, token: string): Promise<string> {
  const script = await installScript(ctx)
  if (!script) return `echo ${token} | berth-agent join ${ctx.baseUrl}`
  const digest = createHash('sha256').update(script).digest('hex')
  return [
    `curl -fsSLO ${ctx.baseUrl}/install.sh && echo "${digest}  install.sh" | sha256sum -c && \\`,
    `  echo ${token} | sh install.sh --token-file -`,
  ].join('\n')
}
