// `npm run release`: everything that a release contains, for both architectures, from any Linux machine. Two runs on one
// commit give the same bytes.
//   npm run release -- [--out FOLDER] [--arch x64,arm64]    builds; signs if BERTH_RELEASE_KEY_FILE names a key
//       [--key PUBLIC_KEY]                                  the key that upgrades trust, if the private one is elsewhere
//   npm run release -- keygen FILE                          makes a key: FILE stays offline, FILE.pub is published
//   npm run release -- sign FOLDER                          signs a release that was built elsewhere
//   npm run release -- verify FOLDER PUBLIC_KEY             checks the signature and every file
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, rename, rm } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { buildDashboardIfStale } from '../build-dashboard.ts'
import { fillAgent, type ReleaseFiles } from '../package-agent.ts'
import { bundleClient } from '../package-client.ts'
import { makeArchive, type PlatformParts, root } from '../packaging.ts'
import { type Deb, makeDeb } from './deb.ts'
import { releaseFiles, writeAgentManifest } from './manifest.ts'
import {
  debName,
  fillContainers,
  fillServer,
  layOutAgentDeb,
  layOutClientDeb,
  layOutServerDeb,
  VERSION,
} from './packages.ts'
import { ARCHITECTURES, type Architecture, fetchParts } from './parts.ts'
import {
  checkRelease,
  fingerprint,
  makeKey,
  signFile,
  signRelease,
  writeSums,
} from './signature.ts'

const USAGE = `Usage: npm run release -- [--out FOLDER] [--arch x64,arm64] [--key PUBLIC_KEY_FILE]
       npm run release -- keygen FILE
       npm run release -- sign FOLDER           (BERTH_RELEASE_KEY_FILE names the key)
       npm run release -- verify FOLDER PUBLIC_KEY_FILE`

class UsageError extends Error {}

async function debOf(
  file: string,
  scratch: string,
  layOut: (folder: string) => Promise<Deb>,
): Promise<void> {
  const content = await mkdtemp(join(scratch, 'deb-'))
  await chmod(content, 0o755)
  await makeDeb(file, content, await layOut(content))
  await rm(content, { recursive: true })
}

/** Both kinds of package from one folder. */
async function buildAgent(
  made: string,
  scratch: string,
  parts: PlatformParts,
  release: ReleaseFiles,
): Promise<string> {
  const { platform } = parts
  const folder = join(scratch, `agent-${platform}`)
  await fillAgent(folder, parts, release)
  const archive = join(made, `berth-agent-${platform}.tar.gz`)
  await makeArchive(archive, (content) => cp(folder, content, { recursive: true }))
  const deb = join(made, debName('berth-agent', platform))
  await debOf(deb, scratch, (content) => layOutAgentDeb(content, folder, platform))
  await rm(folder, { recursive: true })
  return archive
}

async function buildServer(
  made: string,
  scratch: string,
  parts: PlatformParts,
  packages: string[],
  release: ReleaseFiles,
): Promise<void> {
  const { platform } = parts
  const name = `berth-server-${VERSION}`
  const folder = join(scratch, `server-${platform}`)
  await fillServer(folder, parts, packages, release)
  await makeArchive(join(made, `${name}-${platform}.tar.gz`), (content) =>
    cp(folder, join(content, name), { recursive: true }),
  )
  const deb = join(made, debName('berth-server', platform))
  await debOf(deb, scratch, (content) => layOutServerDeb(content, folder, platform))
  await rm(folder, { recursive: true })
}

async function buildAll(
  made: string,
  scratch: string,
  archs: Architecture[],
  keyFile: string | undefined,
): Promise<void> {
  const release = releaseFiles(keyFile)
  const all: PlatformParts[] = []
  for (const arch of archs) all.push(await fetchParts(arch))
  await buildDashboardIfStale()
  await bundleClient(made)
  const client = join(made, 'berth.cjs')
  await debOf(join(made, debName('berth', 'all')), scratch, (content) =>
    layOutClientDeb(content, client),
  )
  const agents: string[] = []
  for (const parts of all) agents.push(await buildAgent(made, scratch, parts, release))
  const manifest = await writeAgentManifest(made, agents)
  const packages = [client, ...agents, manifest]
  // a key at hand signs it now, so that every package of the server has the signature; otherwise `sign` does, beside them
  const key = process.env.BERTH_RELEASE_KEY_FILE
  if (key) {
    signFile(manifest, key)
    packages.push(`${manifest}.sig`)
  }
  for (const parts of all) await buildServer(made, scratch, parts, packages, release)
  for (const kind of ['docker', 'kubernetes'] as const) {
    const name = `berth-${kind}-${VERSION}`
    await makeArchive(join(made, `${name}.tar.gz`), (content) =>
      fillContainers(kind, join(content, name)),
    )
  }
  await cp(join(root, 'scripts/release/files/install-server.sh'), join(made, 'install-server.sh'))
  await chmod(join(made, 'install-server.sh'), 0o755)
  await writeSums(made)
}

function signIfKey(folder: string): void {
  const keyFile = process.env.BERTH_RELEASE_KEY_FILE
  if (!keyFile) {
    console.error(
      'The release is NOT signed: BERTH_RELEASE_KEY_FILE names no key. ' +
        `Sign it where the key is: npm run release -- sign ${folder}`,
    )
    return
  }
  console.error(`Signed with the key ${fingerprint(signRelease(folder, keyFile))}.`)
}

/** Built aside; an earlier release in the folder is replaced by a complete one. */
async function release(
  out: string,
  archs: Architecture[],
  keyFile: string | undefined,
): Promise<void> {
  await mkdir(dirname(out), { recursive: true })
  const scratch = await mkdtemp(join(dirname(out), '.releasing-'))
  try {
    const made = join(scratch, 'made')
    await mkdir(made)
    await buildAll(made, scratch, archs, keyFile)
    if (existsSync(out)) {
      const foreign = readdirSync(out).filter(
        (name) => !/^(berth|install-server|SHA256)/.test(name),
      )
      if (foreign.length > 0) throw new Error(`${out} holds something else: ${foreign.join(', ')}.`)
      await rm(out, { recursive: true })
    }
    await rename(made, out)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
  signIfKey(out)
  console.error(`Berth ${VERSION} for ${archs.join(' and ')} is in ${out}:`)
  console.log(readFileSync(join(out, 'SHA256SUMS'), 'utf8').trimEnd())
}

function readArchs(text: string): Architecture[] {
  const known: readonly string[] = ARCHITECTURES
  const archs = [...new Set(text.split(','))]
  if (archs.some((arch) => !known.includes(arch))) {
    throw new UsageError(`--arch must be x64, arm64 or both, got "${text}".`)
  }
  return archs as Architecture[]
}

async function main(argv: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: { out: { type: 'string' }, arch: { type: 'string' }, key: { type: 'string' } },
  })
  const [command, first, second] = positionals
  if (command === 'keygen' && first) {
    const key = makeKey(first)
    console.log(`Keep ${first} offline. Publish ${first}.pub, fingerprint ${fingerprint(key)}.`)
    return 0
  }
  if (command === 'sign' && first) {
    if (!process.env.BERTH_RELEASE_KEY_FILE)
      throw new UsageError('BERTH_RELEASE_KEY_FILE is unset.')
    signIfKey(first)
    return 0
  }
  if (command === 'verify' && first && second) {
    const key = readFileSync(second, 'utf8')
    const problems = await checkRelease(first, key)
    for (const problem of problems) console.error(problem)
    if (problems.length === 0)
      console.log(`${first} was released with the key ${fingerprint(key)}.`)
    return problems.length === 0 ? 0 : 1
  }
  if (command !== undefined) throw new UsageError(`There is no command ${positionals.join(' ')}.`)
  await release(
    resolve(values.out ?? join(root, 'dist/release')),
    readArchs(values.arch ?? 'x64,arm64'),
    values.key,
  )
  return 0
}

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  console.error(`error: ${error instanceof Error ? error.message : String(error)}`)
  if (error instanceof UsageError) console.error(USAGE)
  process.exitCode = 1
}
