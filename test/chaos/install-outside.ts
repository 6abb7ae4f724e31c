// What machines of `npm run chaos -- install` find outside: an ACME authority, a site with a release, and a forge, on the
// bridge that connects them. Certificates of site and forge come from an authority that the machines trust.
import { execFileSync } from 'node:child_process'
import {
  copyFileSync,
  cpSync,
  createReadStream,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { type IncomingMessage, request, type ServerResponse } from 'node:http'
import { createServer, type Server } from 'node:https'
import { basename, join } from 'node:path'
import { type GitServer, startGitServer } from '../../scripts/git-server.ts'
import { Pebble } from '../fixtures/acme/pebble.ts'
import type { Bridge } from '../fixtures/server/booted-machine.ts'

export const RELEASES = 'releases.example.com'
export const FORGE = 'git.example.com'

/** The example of `npm start`. */
function makeManualRepository(folder: string): void {
  const target = join(folder, 'hello')
  cpSync(join(import.meta.dirname, '../../examples/hello'), target, { recursive: true })
  commitAll(target)
}

/** The example for docker. Its image needs no registry, because the machines have no internet. */
function makeDockerRepository(folder: string, busybox: string): void {
  const target = join(folder, 'hello-docker')
  mkdirSync(target, { recursive: true })
  copyFileSync(busybox, join(target, 'busybox'))
  writeFileSync(join(target, 'index.html'), '<h1>Hello from a container</h1>\n')
  writeFileSync(
    join(target, 'Dockerfile'),
    'FROM scratch\nCOPY busybox /bin/busybox\nCOPY index.html /www/index.html\nCMD ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/www"]\n',
  )
  writeFileSync(
    join(target, '.service.yml'),
    'version: 1\ndocker:\n  services:\n    web:\n      build: .\n      port: 8080\n      health: /\n',
  )
  commitAll(target)
}

function commitAll(folder: string): void {
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=Berth', '-c', 'user.email=berth@localhost', ...args], {
      cwd: folder,
      stdio: 'pipe',
    })
  git('init', '--quiet', '--initial-branch=main')
  git('add', '--all')
  git('commit', '--quiet', '--message=Hello')
}

export function makeCertificate(folder: string): { key: string; cert: string } {
  const [key, cert] = [join(folder, 'site.key'), join(folder, 'site.pem')]
  const names = `subjectAltName=DNS:${RELEASES},DNS:${FORGE}`
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2']
  const files = ['-keyout', key, '-out', cert, '-subj', '/CN=outside', '-addext', names]
  execFileSync('openssl', ['req', '-x509', ...kind, ...files], { stdio: 'ignore' })
  return { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') }
}

export class Outside {
  readonly pebble: Pebble
  /** What the machines must trust. */
  readonly authorities: string[]
  readonly #site: Server
  readonly #git: GitServer

  private constructor(pebble: Pebble, authorities: string[], site: Server, git: GitServer) {
    this.pebble = pebble
    this.authorities = authorities
    this.#site = site
    this.#git = git
  }

  /** `release` is the folder of a signed release, `base` the root folder of the machines. */
  static async open(
    folder: string,
    bridge: Bridge,
    { release, base }: { release: string; base: string },
  ): Promise<Outside> {
    const host = `${bridge.network}.1`
    const repositories = join(folder, 'repositories')
    makeManualRepository(repositories)
    makeDockerRepository(repositories, join(base, 'bin/busybox'))
    const git = await startGitServer(repositories)
    const tls = makeCertificate(folder)
    const site = createServer(tls, (asked, answer) => {
      if (asked.headers.host === FORGE) forward(git.url, asked, answer)
      else sendFile(release, asked.url ?? '', answer)
    })
    await new Promise<void>((resolve, reject) => {
      site.once('error', reject)
      site.listen(443, host, resolve)
    })
    const pebble = await Pebble.start({ httpPort: 80, host })
    return new Outside(pebble, [tls.cert, pebble.ca, await pebble.root()], site, git)
  }

  async close(): Promise<void> {
    await this.pebble.stop()
    await this.#git.close()
    const closed = new Promise((resolve) => this.#site.close(resolve))
    this.#site.closeAllConnections()
    await closed
  }
}

export function sendFile(folder: string, path: string, answer: ServerResponse): void {
  const file = join(folder, basename(path))
  if (!existsSync(file)) return void answer.writeHead(404).end()
  answer.writeHead(200, { 'content-length': statSync(file).size })
  createReadStream(file).pipe(answer)
}

function forward(to: string, asked: IncomingMessage, answer: ServerResponse): void {
  const { method, headers, url = '/' } = asked
  const call = request(to + url, { method, headers }, (got) => {
    answer.writeHead(got.statusCode ?? 502, got.headers)
    got.pipe(answer)
  })
  call.on('error', () => answer.destroy())
  asked.pipe(call)
}
