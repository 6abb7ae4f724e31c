// Runs git for the control plane: reads the refs and commits of a repository and, for the check of a project, its
// `.service.yml`.
// Fixed argv, connections only to addresses checked before the process starts, no user configuration, hooks, helpers,
// prompts, redirects or submodules. A few run concurrently, the others wait.
import {
  type AddressRules,
  checkCommit,
  checkRef,
  checkRepositoryUrl,
  LOOKS,
  type RepositoryAddress,
  SERVICE_FILE,
  type Sensitive,
} from '@berth/shared'
import { type Guard, OutboundRefusal } from './addresses.ts'
import { clearGitFolders, type GitFolder, readFirstSeen, withGitFolder } from './git-folder.ts'
import {
  type ChangedFile,
  type CommitFacts,
  explainLook,
  type LookFailure,
  parseDifference,
  parseHistory,
  parseRefs,
  type Refs,
} from './git-messages.ts'
import { type HostKey, knownHostsName, parseHostKeys, sshHostOf } from './host-keys.ts'
import { locateProgram, type ProgramResult, runProgram, SYSTEM_PATH } from './programs.ts'

export interface LookRequest {
  projectId: number
  url: string
  /** Shown in the message that says which key to add. */
  publicKey: string
  deployKey: Sensitive<Uint8Array>
  /** The line of known_hosts that an owner trusts; null: trust on first use. */
  trusted: string | null
}

export type Look = ({ ok: true } & Refs) | ({ ok: false } & LookFailure)

type ServiceFileLook = { ok: true; content: Buffer | undefined } | ({ ok: false } & LookFailure)

type CommitList = { ok: true; commits: string[] } | ({ ok: false } & LookFailure)

type History = { ok: true; commits: CommitFacts[] } | ({ ok: false } & LookFailure)

type TreeDifference =
  | { ok: true; files: ChangedFile[]; isTruncated: boolean }
  | ({ ok: false } & LookFailure)

interface HostKeyScan {
  /** As known_hosts names it; null if the repository is not read over ssh. */
  host: string | null
  offered: HostKey[]
  error: LookFailure | null
}

const BUSY: LookFailure = {
  code: 'busy',
  message: 'Too many repositories are being looked at. Try again in a minute.',
}

const SAFE_OPTIONS = [
  'core.hooksPath=/dev/null',
  'protocol.ext.allow=never',
  'http.followRedirects=false',
  'credential.helper=',
  'core.askPass=',
  'core.fsmonitor=false',
  'fetch.recurseSubmodules=false',
  'gc.auto=0',
  'maintenance.auto=false',
  'transfer.bundleURI=false',
  'pack.threads=1',
]

const repositoryOf = (folder: GitFolder): string => `${folder.path}/repository`
const insideOf =
  (folder: GitFolder) =>
  (args: string[]): string[] => ['-C', repositoryOf(folder), ...args]

interface GitSettings {
  dataDir: string
  guard: Guard
  rules: AddressRules
}

/** Closing it ends every running git. */
export class Git {
  readonly #settings: GitSettings
  readonly #stop = new AbortController()
  readonly #waiting: (() => void)[] = []
  #running = 0

  constructor(settings: GitSettings) {
    this.#settings = settings
    clearGitFolders(settings.dataDir)
  }

  /** Never throws because of the repository or its forge. */
  lookAtRepository(request: LookRequest): Promise<Look> {
    return this.#with(request, async (folder, address) => {
      const args = ['ls-remote', '--quiet', '--symref', '--', address.url]
      const result = await this.#call(folder, args, LOOKS.outputBytes)
      const failure = this.#judge(result, request, address)
      if (failure) return { ok: false, ...failure }
      return { ok: true, ...parseRefs(result.stdout.toString('utf8')) }
    })
  }

  /** Reads the file at a commit; undefined content means that there is none. */
  readServiceFile(request: LookRequest & { sha: string }): Promise<ServiceFileLook> {
    if (!checkCommit(request.sha).ok) throw new Error('a full commit hash is needed')
    return this.#with(request, async (folder, address) => {
      const inside = insideOf(folder)
      const wanted = { what: [request.sha], depth: 1, filter: 'blob:none' }
      const unfetched = await this.#fetch(folder, address, request, wanted)
      if (unfetched) return { ok: false, ...unfetched }
      const listed = await this.#call(
        folder,
        inside(['ls-tree', '-z', '--full-tree', request.sha, '--', '.service.yml']),
        LOOKS.errorBytes,
      )
      // a link, a folder or a submodule of that name is not a file
      const entry = /^100(?:644|755) blob ([0-9a-f]{40,64})\t/.exec(listed.stdout.toString('utf8'))
      if (!entry) return { ok: true, content: undefined }
      // fetches the file lazily, and stops git if it exceeds the size limit
      const blob = inside(['cat-file', 'blob', entry[1] as string])
      const read = await this.#call(folder, blob, SERVICE_FILE.bytes + 1)
      if (read.overflow) return { ok: true, content: Buffer.alloc(SERVICE_FILE.bytes + 1, ' ') }
      const failure = this.#judge(read, request, address)
      return failure ? { ok: false, ...failure } : { ok: true, content: read.stdout }
    })
  }

  /** Lists the newest commits of a ref, newest first. Neither names nor contents of files are fetched. */
  listCommits(request: LookRequest & { ref: string; most: number }): Promise<CommitList> {
    if (!checkRef(request.ref).ok) throw new Error('a valid ref is needed')
    return this.#with(request, async (folder, address) => {
      const wanted = { what: [request.ref], depth: request.most, filter: 'tree:0' }
      const unfetched = await this.#fetch(folder, address, request, wanted)
      if (unfetched) return { ok: false, ...unfetched }
      const list = insideOf(folder)(['rev-list', `--max-count=${request.most}`, 'FETCH_HEAD'])
      const result = await this.#call(folder, list, LOOKS.outputBytes)
      const failure = this.#judge(result, request, address)
      if (failure) return { ok: false, ...failure }
      const lines = result.stdout.toString('utf8').split('\n')
      return { ok: true, commits: lines.filter((line) => checkCommit(line).ok) }
    })
  }

  /** The newest commits of a ref with their authors and subjects, newest first. */
  readHistory(request: LookRequest & { ref: string; most: number }): Promise<History> {
    if (!checkRef(request.ref).ok) throw new Error('a valid ref is needed')
    return this.#with(request, async (folder, address) => {
      const wanted = { what: [request.ref], depth: request.most, filter: 'tree:0' }
      const unfetched = await this.#fetch(folder, address, request, wanted)
      if (unfetched) return { ok: false, ...unfetched }
      const format = '--format=tformat:%H%x00%an%x00%ct%x00%s'
      const plain = ['--no-show-signature', '--no-mailmap', '--encoding=UTF-8', '-z']
      const log = insideOf(folder)([
        'log',
        ...plain,
        format,
        `--max-count=${request.most}`,
        'FETCH_HEAD',
      ])
      const result = await this.#call(folder, log, LOOKS.outputBytes)
      const failure = this.#judge(result, request, address)
      return failure
        ? { ok: false, ...failure }
        : { ok: true, commits: parseHistory(result.stdout.toString('utf8')) }
    })
  }

  /** The files that differ between two commits. Only trees are fetched, so a renamed file is one deleted, one added. */
  compareTrees(
    request: LookRequest & { base: string; head: string; most: number },
  ): Promise<TreeDifference> {
    const { base, head, most } = request
    if (!checkCommit(base).ok || !checkCommit(head).ok) throw new Error('full hashes are needed')
    return this.#with(request, async (folder, address) => {
      const wanted = { what: [base, head], depth: 1, filter: 'blob:none' }
      const unfetched = await this.#fetch(folder, address, request, wanted)
      if (unfetched) return { ok: false, ...unfetched }
      const how = ['-r', '-z', '--no-renames', '--name-status', '--ignore-submodules=none']
      const diff = insideOf(folder)(['diff-tree', ...how, base, head])
      const result = await this.#call(folder, diff, LOOKS.differenceBytes)
      const failure = result.overflow ? undefined : this.#judge(result, request, address)
      if (failure) return { ok: false, ...failure }
      const files = parseDifference(result.stdout.toString('utf8'))
      const isTruncated = result.overflow || files.length > most
      return { ok: true, files: files.slice(0, most), isTruncated }
    })
  }

  /** The forge's name in known_hosts; undefined if the repository is not read over ssh. */
  knownHostsNameOf(url: string): string | undefined {
    const checked = checkRepositoryUrl(url, this.#settings.rules)
    const host = checked.ok ? sshHostOf(checked.value) : undefined
    return host && knownHostsName(host)
  }

  /** Returns the keys that were kept on first use. */
  firstSeenHostKeys(projectId: number, url: string): HostKey[] {
    const name = this.knownHostsNameOf(url)
    if (name === undefined) return []
    return parseHostKeys(readFirstSeen(this.#settings.dataDir, projectId), name)
  }

  /** Scans the forge's public host keys from a checked address. None of our keys is used. */
  async scanHostKeys(url: string): Promise<HostKeyScan> {
    const { guard, rules } = this.#settings
    const checked = checkRepositoryUrl(url, rules)
    const address = checked.ok ? sshHostOf(checked.value) : undefined
    if (!address) return { host: null, offered: [], error: null }
    const host = knownHostsName(address)
    const failed = (error: LookFailure): HostKeyScan => ({ host, offered: [], error })
    if (!(await this.#enter())) return failed(BUSY)
    try {
      const [pinned] = await guard.check(address.host)
      const offered = pinned ? await this.#scan(pinned.address, address.port) : []
      if (offered.length > 0) return { host, offered, error: null }
      return failed({ code: 'unreachable', message: `${host} showed no host key.` })
    } catch (error) {
      if (!(error instanceof OutboundRefusal)) throw error
      return failed({ code: error.code, message: error.message })
    } finally {
      this.#leave()
    }
  }

  async #scan(address: string, port: number): Promise<HostKey[]> {
    const program = locateProgram('ssh-keyscan')
    if (!program) throw new Error('ssh-keyscan is not installed on the control plane')
    const seconds = Math.floor(LOOKS.timeoutMs / 2_000)
    const kinds = 'ed25519,ecdsa,rsa'
    const argv = [program, '-T', `${seconds}`, '-t', kinds, '-p', `${port}`, '--', address]
    const result = await runProgram(argv, {
      cwd: '/',
      env: { PATH: SYSTEM_PATH, LC_ALL: 'C' },
      timeoutMs: LOOKS.timeoutMs,
      maxBytes: LOOKS.knownHostsBytes,
      maxErrorBytes: LOOKS.errorBytes,
      signal: this.#stop.signal,
    })
    return parseHostKeys(result.stdout.toString('latin1'))
  }

  close(): void {
    this.#stop.abort()
  }

  async #with<T>(
    request: LookRequest,
    use: (folder: GitFolder, address: RepositoryAddress) => Promise<T>,
  ): Promise<T | ({ ok: false } & LookFailure)> {
    const { dataDir, guard, rules } = this.#settings
    const checked = checkRepositoryUrl(request.url, rules)
    if (!checked.ok) return { ok: false, code: 'address_not_allowed', message: checked.problem }
    const address = checked.value
    if (!(await this.#enter())) {
      return { ok: false, ...BUSY }
    }
    try {
      const pinned = address.transport === 'file' ? [] : await guard.check(address.host)
      const { projectId, deployKey, trusted } = request
      const folder = { dataDir, projectId, address, pinned, deployKey, trusted }
      return await withGitFolder(folder, (made) => use(made, address))
    } catch (error) {
      if (!(error instanceof OutboundRefusal)) throw error
      return { ok: false, code: error.code, message: error.message }
    } finally {
      this.#leave()
    }
  }

  /** Fetches a ref or a commit into a new bare repository of the folder. */
  async #fetch(
    folder: GitFolder,
    address: RepositoryAddress,
    request: LookRequest,
    wanted: { what: string[]; depth: number; filter: string },
  ): Promise<LookFailure | undefined> {
    const inside = insideOf(folder)
    const { what, depth, filter } = wanted
    const how = ['--quiet', '--no-tags', `--depth=${depth}`, `--filter=${filter}`]
    const steps = [
      ['init', '--quiet', '--bare', '--template=', repositoryOf(folder)],
      inside(['config', 'remote.origin.url', address.url]),
      inside(['config', 'remote.origin.promisor', 'true']),
      inside(['config', 'remote.origin.partialclonefilter', filter]),
      inside(['fetch', ...how, 'origin', ...what]),
    ]
    for (const args of steps) {
      const result = await this.#call(folder, args, LOOKS.errorBytes)
      const failure = this.#judge(result, request, address)
      if (failure) return failure
    }
    return undefined
  }

  #call(folder: GitFolder, args: string[], maxBytes: number): Promise<ProgramResult> {
    const git = locateProgram('git')
    if (!git) throw new Error('git is not installed on the control plane')
    const prlimit = locateProgram('prlimit')
    const sizes = [`--fsize=${LOOKS.checkBytes}`, `--data=${LOOKS.memoryBytes}`]
    const bounded = prlimit ? [prlimit, ...sizes, '--'] : []
    const options = [...SAFE_OPTIONS, ...folder.options].flatMap((option) => ['-c', option])
    return runProgram([...bounded, git, ...options, ...args], {
      cwd: folder.path,
      env: folder.env,
      timeoutMs: LOOKS.timeoutMs,
      maxBytes,
      maxErrorBytes: LOOKS.errorBytes,
      signal: this.#stop.signal,
    })
  }

  #judge(
    result: ProgramResult,
    request: LookRequest,
    { host, transport }: RepositoryAddress,
  ): LookFailure | undefined {
    if (this.#stop.signal.aborted) return { code: 'failed', message: 'The control plane stops.' }
    if (result.timedOut) {
      const seconds = LOOKS.timeoutMs / 1_000
      return { code: 'timeout', message: `No answer from ${host || 'the folder'} in ${seconds} s.` }
    }
    if (result.overflow) {
      return { code: 'too_large', message: `${host} sent more than the list of refs may have.` }
    }
    if (result.code === 0) return undefined
    if (/out of memory|malloc|mmap failed/i.test(result.stderr)) {
      return { code: 'too_large', message: `${host} sent more than the list of refs may have.` }
    }
    const isSsh = transport === 'ssh'
    return explainLook(result.stderr, { host, publicKey: request.publicKey, isSsh })
  }

  /** Returns false if too many already wait. */
  async #enter(): Promise<boolean> {
    if (this.#running < LOOKS.atOnce) {
      this.#running += 1
      return true
    }
    if (this.#waiting.length >= LOOKS.waiting) return false
    await new Promise<void>((resolve) => this.#waiting.push(resolve)) // the slot is handed over
    return true
  }

  #leave(): void {
    const next = this.#waiting.shift()
    if (next) next()
    else this.#running -= 1
  }
}
