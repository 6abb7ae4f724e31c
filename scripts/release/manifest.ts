// What a release says about itself: the key and the counter inside each package, and the manifest of the agents.
import { execFileSync } from 'node:child_process'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import {
  AGENT_MANIFEST,
  type AgentManifest,
  isReleaseFacts,
  RELEASE_FACTS,
  RELEASE_KEY,
  type ReleaseFacts,
} from '../../shared/src/release/release.ts'
import type { ReleaseFiles } from '../package-agent.ts'
import { root } from '../packaging.ts'
import { VERSION } from './packages.ts'
import { hashFile, publicKeyOf } from './signature.ts'

/** Agents of this version work with control planes from this one on: the version before. */
const OLDEST_CONTROL_PLANE = '1.15.0'

/** Rises with each release and is the same for two builds of one commit: the commit's time in seconds. */
function readCounter(): number {
  const given = process.env.SOURCE_DATE_EPOCH
  if (given !== undefined) return Number(given)
  return Number(execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: root }).toString().trim())
}

/** The public key that agents and control planes of this release trust for the next one; undefined: none. */
function readPublicKey(keyFile: string | undefined): string | undefined {
  if (keyFile !== undefined) return readFileSync(keyFile, 'utf8')
  const own = process.env.BERTH_RELEASE_KEY_FILE
  return own === undefined ? undefined : publicKeyOf(own)
}

/** The files that every package of this release contains. */
export function releaseFiles(keyFile: string | undefined): ReleaseFiles {
  const key = readPublicKey(keyFile)
  const facts: ReleaseFacts = { version: VERSION, counter: readCounter() }
  if (!isReleaseFacts(facts)) throw new Error(`${VERSION} is no version of a release.`)
  return {
    [RELEASE_FACTS]: `${JSON.stringify(facts)}\n`,
    ...(key === undefined ? {} : { [RELEASE_KEY]: key }),
  }
}

/** `archives`: the agents' packages, named by platform. */
export async function writeAgentManifest(folder: string, archives: string[]): Promise<string> {
  const platforms: AgentManifest['platforms'] = {}
  for (const file of archives) {
    const name = basename(file)
    const platform = name.replace(/^berth-agent-|\.tar\.gz$/g, '')
    platforms[platform] = {
      file: name,
      sha256: await hashFile(file),
      bytes: statSync(file).size,
    }
  }
  const manifest: AgentManifest = {
    version: VERSION,
    counter: readCounter(),
    minimum_control_plane: OLDEST_CONTROL_PLANE,
    platforms,
  }
  const made = join(folder, AGENT_MANIFEST)
  writeFileSync(made, `${JSON.stringify(manifest, null, 2)}\n`)
  return made
}
