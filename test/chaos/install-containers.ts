// npm run chaos -- install --containers [--release FOLDER] [--root FOLDER]: the Dockerfile and the compose file of a
// release, started as their README says, on a machine of its own. Its engine has no internet, so the images that the files
// name are made here from Debian's packages (server, database and HAProxy) and the pinned Caddy.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { ensureCaddy, findShippedCaddy } from '../../scripts/caddy.ts'
import { BootedMachine, Bridge, makeDebianRoot } from '../fixtures/server/booted-machine.ts'
import { until } from '../fixtures/server/installation.ts'
import { buildSignedRelease, Operator } from './install.ts'
import { sendFile } from './install-outside.ts'
import { ensureRoot } from './servers.ts'

const NETWORK = '10.213.79'
const SITE = `http://${NETWORK}.1:8000`

/** Debian 12 has compose 1.29 as a program of its own; people type `docker compose`. */
const PLUGIN = `#!/bin/sh
[ "$1" != docker-cli-plugin-metadata ] || { echo '{"SchemaVersion":"0.1.0","Vendor":"Debian"}'; exit; }
shift
exec docker-compose "$@"
`

/** As the official image does it: initdb once, then the server. */
const DATABASE_ENTRY = `#!/bin/sh
set -eu
data=/var/lib/postgresql/data
bin=$(echo /usr/lib/postgresql/*/bin)
as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
install -d -o postgres -g postgres -m 2775 /run/postgresql
chown postgres:postgres "$data"
chmod 700 "$data"
if [ ! -e "$data/PG_VERSION" ]; then
  printf '%s\\n' "$POSTGRES_PASSWORD" >/tmp/password
  chown postgres /tmp/password
  as "$bin/initdb" -D "$data" -U "$POSTGRES_USER" --pwfile=/tmp/password -A scram-sha-256 -E UTF8 --locale=C
  echo 'host all all all scram-sha-256' >>"$data/pg_hba.conf"
  as "$bin/pg_ctl" -D "$data" -w -o "-c listen_addresses=" start
  PGPASSWORD=$POSTGRES_PASSWORD "$bin/createdb" -h /var/run/postgresql -U "$POSTGRES_USER" "$POSTGRES_DB"
  as "$bin/pg_ctl" -D "$data" -w stop
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups "$bin/postgres" -D "$data" -c listen_addresses='*'
`

/** name → options of `docker import` that make one root folder the image of that name. */
const IMAGES: Record<string, string[]> = {
  'debian:bookworm-slim': ['CMD ["bash"]'],
  'postgres:17': [
    'ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
    'ENTRYPOINT ["/usr/local/bin/database"]',
    'VOLUME /var/lib/postgresql/data',
  ],
  'haproxy:3.0': ['CMD ["haproxy", "-W", "-db", "-f", "/usr/local/etc/haproxy/haproxy.cfg"]'],
  'caddy:2': [
    'ENV XDG_CONFIG_HOME=/config XDG_DATA_HOME=/data',
    'CMD ["caddy", "run", "--config", "/etc/caddy/Caddyfile", "--adapter", "caddyfile"]',
  ],
}

/** One root folder for all of them, as an archive. Without sources, apt has what is installed and asks for nothing. */
function makeRoot(folder: string): void {
  const packages = 'ca-certificates,git,haproxy,openssh-client,postgresql'
  const lower = ensureRoot('bookworm-balanced', { suite: 'bookworm', packages })
  const added = join(folder, 'added')
  mkdirSync(join(added, 'usr/local/bin'), { recursive: true })
  mkdirSync(join(added, 'etc/apt'), { recursive: true })
  writeFileSync(join(added, 'etc/apt/sources.list'), '')
  writeFileSync(join(added, 'usr/local/bin/database'), DATABASE_ENTRY)
  ensureCaddy()
  const caddy = findShippedCaddy()
  if (!caddy) throw new Error('Caddy could not be fetched')
  copyFileSync(caddy.file, join(added, 'usr/local/bin/caddy'))
  for (const name of ['database', 'caddy']) chmodSync(join(added, 'usr/local/bin', name), 0o755)
  const archive = join(folder, 'root.tar')
  const own = ['--exclude=./etc/apt/sources.list', '--exclude=./var/cache/apt/archives/*.deb']
  execFileSync('tar', ['-C', lower, ...own, '-cf', archive, '.'])
  // an engine takes no path twice, so only files are added
  const files = ['./etc/apt/sources.list', './usr/local/bin/database', './usr/local/bin/caddy']
  execFileSync('tar', ['-C', added, '--owner=0', '--group=0', '-rf', archive, ...files])
}

async function serve(folders: string[]): Promise<Server> {
  const site = createServer((asked, answer) => {
    const name = (asked.url ?? '').slice(1)
    sendFile(folders.find((one) => existsSync(join(one, name))) ?? '', name, answer)
  })
  await new Promise<void>((resolve) => site.listen(8000, `${NETWORK}.1`, resolve))
  return site
}

async function operate(machine: BootedMachine, operator: Operator, files: string[]): Promise<void> {
  const [docker = '', server = ''] = files
  const folder = `/root/${docker.replace('.tar.gz', '')}`
  const type = (line: string) => operator.type(machine, `cd ${folder} && ${line}`, line)
  await machine.must('sh', '-c', `curl -fsS ${SITE}/${docker} | tar -xz -C /root`)
  for (const [name, changes] of Object.entries(IMAGES)) {
    const options = changes.map((one) => `--change '${one}'`).join(' ')
    await machine.must(
      'sh',
      '-c',
      `curl -fsS ${SITE}/root.tar | docker import ${options} - ${name}`,
    )
  }
  const plugin = '/usr/local/lib/docker/cli-plugins/docker-compose'
  await machine.must('mkdir', '-p', dirname(plugin))
  await machine.write(plugin, PLUGIN)
  await machine.must('chmod', '755', plugin)

  await type(`curl -fsSO ${SITE}/${server}`)
  // without it, compose says what is missing and starts nothing
  const unset = await machine.type(`cd ${folder} && docker compose up -d`)
  if (unset.status === 0 || !/put it into \.env/.test(unset.stderr)) {
    operator.failed.push(`without .env: ${unset.stdout}${unset.stderr}`)
  }
  await type(
    'sed -e "s/^POSTGRES_PASSWORD=.*/POSTGRES_PASSWORD=$(openssl rand -hex 24)/" -e s/deploy.example.com/localhost/ example.env >.env',
  )
  await type(
    "docker compose up -d || { docker compose logs; docker ps -aq | xargs docker inspect --format '{{json .State}}'; exit 1; } >&2",
  )
  await until('the control plane', async () => {
    const { status } = await machine.type('curl -fsSk https://localhost/health/ready')
    return status === 0 || undefined
  })
  const logs = (await type('docker compose logs control-plane')).stdout
  const [, token] = /https:\/\/localhost\/setup#(berth_setup_\w+)/.exec(logs) ?? []
  if (!token) throw new Error(`there is no set-up link:\n${logs}`)
  const form = { token, name: 'Ada', email: 'ada@example.com', organization: 'Acme' }
  await machine.write('/tmp/form', JSON.stringify(form))
  const post =
    "curl -fsSk -H 'content-type: application/json' -d @/tmp/form https://localhost/api/setup"
  const made = JSON.parse(await machine.must('sh', '-c', post)) as { token: string }
  // what agents connect to has the control plane's own authority
  const agents = await machine.type('openssl s_client -connect 127.0.0.1:7443 </dev/null 2>&1')
  if (!agents.stdout.includes('BEGIN CERTIFICATE'))
    operator.failed.push('port 7443 answers nothing')
  // not `exec`: on this machine, whose root is an overlay, it sees the image without the container's own layer
  const doctor = await machine.type(
    `cd ${folder} && docker compose run --rm -T control-plane /usr/lib/berth-server/bin/berth-server doctor`,
  )
  if (!/^ok +database: /m.test(doctor.stdout))
    operator.failed.push(`doctor:\n${doctor.stdout}${doctor.stderr}`)

  // a new container has the data and the key of the old one
  await type('docker compose down')
  await type('docker compose up -d')
  const auth = `authorization: Bearer ${made.token}`
  await until('the control plane', async () => {
    const { stdout } = await machine.run('curl', '-fsSk', '-H', auth, 'https://localhost/api/me')
    return stdout.includes('ada@example.com') || undefined
  })
  await scaleAndReplace(machine, operator, folder)
  await type('docker compose down --volumes')
}

const READY = 3

/** Three control planes with one key, and each of them replaced while people ask. */
async function scaleAndReplace(
  machine: BootedMachine,
  operator: Operator,
  folder: string,
): Promise<void> {
  const list = async (): Promise<string[]> => {
    const { stdout } = await machine.type(`cd ${folder} && docker compose ps -q control-plane`)
    return stdout.trim().split('\n')
  }
  const up = `docker compose up -d --scale control-plane=${READY}`
  await operator.type(machine, `cd ${folder} && ${up}`, up)
  const before = await list()
  await until('all are healthy', async () => {
    const states = await machine.type(
      `docker inspect --format '{{.State.Health.Status}}' ${before.join(' ')}`,
    )
    return (
      states.stdout
        .trim()
        .split('\n')
        .every((one) => one === 'healthy') || undefined
    )
  })
  if (before.length !== READY) operator.failed.push(`${before.length} control planes run`)
  const asks = 'curl -fsSk -m 10 https://localhost/api/health >/dev/null || echo lost'
  const replaced = await machine.type(
    `cd ${folder} && { sh replace.sh; echo $? >/tmp/replaced; } >/tmp/replacing 2>&1 & ` +
      `until [ -e /tmp/replaced ]; do ${asks}; done; wait; cat /tmp/replacing /tmp/replaced`,
  )
  if (!/\n0\s*$/.test(replaced.stdout) || replaced.stdout.includes('lost')) {
    operator.failed.push(`replace.sh: ${replaced.stdout}${replaced.stderr}`)
  }
  const after = await list()
  if (after.length !== READY || after.some((one) => before.includes(one))) {
    operator.failed.push(`not replaced: ${before.join(' ')} by ${after.join(' ')}`)
  }
}

export async function chaosContainers(plan: {
  release?: string | undefined
  base?: string | undefined
}): Promise<number> {
  if (process.getuid?.() !== 0) throw new Error('namespaces and bridges need root')
  const say = (line: string): void => console.log(line)
  const folder = mkdtempSync(join(tmpdir(), 'berth-containers-'))
  const closing: (() => Promise<unknown> | unknown)[] = [
    () => rmSync(folder, { recursive: true, force: true }),
  ]
  try {
    const base = plan.base ?? join(folder, 'base')
    if (!existsSync(join(base, 'bin/busybox'))) {
      say('Making a root folder with debootstrap …')
      makeDebianRoot(base, ['docker-compose'])
    }
    const release = plan.release ?? join(folder, 'release')
    if (!existsSync(join(release, 'SHA256SUMS'))) {
      say('Building a release …')
      buildSignedRelease(release)
    }
    const files = join(folder, 'files')
    mkdirSync(files)
    say('Making the images …')
    makeRoot(files)
    const bridge = new Bridge(NETWORK)
    closing.push(() => bridge.close())
    const site = await serve([files, release])
    closing.push(() => site.close())
    const own = join(folder, 'deploy')
    mkdirSync(own)
    const machine = await BootedMachine.boot({
      name: 'deploy',
      base,
      folder: own,
      bridge,
      number: 2,
      hosts: {},
    })
    closing.push(() => machine.close())
    const names = readdirSync(release)
    const find = (pattern: RegExp): string => names.find((name) => pattern.test(name)) ?? ''
    const operator = new Operator(say)
    await operate(machine, operator, [
      find(/^berth-docker-.*\.tar\.gz$/),
      find(new RegExp(`^berth-server-.*-linux-${process.arch}\\.tar\\.gz$`)),
    ])
    for (const line of operator.failed) say(line)
    const isFine = operator.failed.length === 0
    say(
      `install --containers: control planes, PostgreSQL, HAProxy and Caddy after ${operator.lines} lines: ${isFine ? 'ok' : 'VIOLATED'}`,
    )
    return isFine ? 0 : 1
  } finally {
    for (const close of closing.toReversed()) await close()
  }
}
