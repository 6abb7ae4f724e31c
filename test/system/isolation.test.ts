// What a task of one environment can reach of another one and of the agent itself: nothing. Environment A runs commands
// that try everything a machine offers; each prints a word if it got through. As a control, the same commands on its
// own files and processes must print theirs.
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Journal } from '../../agent/src/journal/journal.ts'
import { writeIdentity } from '../../agent/src/link/identity/identity.ts'
import { environmentPaths } from '../../agent/src/machine/files.ts'
import { canUnshareMounts } from '../../agent/src/machine/process/namespaces.ts'
import { readProcess } from '../../agent/src/machine/process/processes.ts'
import { edgePaths } from '../../agent/src/proxy/paths.ts'
import { scratchDir } from '../../agent/src/settings.ts'
import { serviceDir } from '../../agent/src/supervise/instructions.ts'
import type { Deployment } from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { answer, ServiceFixture } from '../fixtures/server/service.ts'

const A = 1
const B = 2
const SECRET = 'b-keeps-this-to-itself'

describe.skipIf(!isRoot)('a task of one environment', () => {
  let fixture: ServiceFixture
  let victim: Deployment
  beforeAll(async () => {
    fixture = await ServiceFixture.open()
    writeIdentity(fixture.host.settings, {
      key: 'agent key',
      certificate: 'certificate',
      ca: ['ca'],
    } as never)
    const journal = Journal.open(fixture.host.settings.stateDir, {
      bootId: 'b',
      now: () => 0,
    } as never)
    journal.close()
    fixture.repository.commit({
      'listen.cjs':
        "require('http').createServer((q, r) => r.end('ok')).listen(process.env.BERTH_SOCKET_DIR + '/app.sock')\n",
      '.service.yml': `manual:
  deploy: ['echo "$TOKEN" >"$BERTH_SHARED_DIR/kept"; mkdir public; echo page >public/page.html']
  services:
    web: { port: auto, run: exec ${fixture.host.node} server.mjs, env: { VERSION: b, MODE: "" } }
    app: { socket: app.sock, run: exec ${fixture.host.node} listen.cjs }
    site: { root: public }
`,
    })
    victim = await fixture.host.deploy(fixture.repository, {
      environmentId: B,
      variables: { TOKEN: SECRET },
      grantedHosts: ['app', 'site'].map((name) => `${name}-pr-42-${B}.shop.example.com`),
    })
    expect((await victim.verdict()).message, victim.log()).toBe('')
  })
  afterAll(() => fixture.close())

  /** Runs each command in environment A; returns the printed words. */
  async function tryAll(commands: Record<string, string>): Promise<string[]> {
    const tries = Object.entries(commands).map(
      ([word, command]) =>
        `if (${command}) >/dev/null 2>&1; then echo "got:${word}"; else echo "refused:${word}"; fi`,
    )
    // in a file, because one step is enough and the log then repeats none of its lines
    fixture.repository.commit({
      'try.sh': `${tries.join('\n')}\n`,
      '.service.yml': 'manual: { deploy: [sh try.sh] }\n',
    })
    const deployment = await fixture.host.deploy(fixture.repository, { environmentId: A })
    const verdict = await deployment.verdict()
    expect([verdict.message, verdict.state]).toEqual(['', AttemptState.SUCCEEDED])
    const words = [...deployment.log().matchAll(/^(got|refused):(.*?)\r?$/gm)]
    expect(words).toHaveLength(tries.length)
    expect(deployment.log()).not.toContain(SECRET)
    return words.filter(([, how]) => how === 'got').map(([, , word]) => word as string)
  }

  it('cannot read files, variables, sockets or logs of another one', async () => {
    const of = environmentPaths(fixture.host.settings, B)
    const task = String(victim.taskId)
    const files = {
      variables: join(of.variables, `${task}.sh`),
      dotenv: join(of.variables, `${task}.env`),
      release: join(of.releases, task, 'server.mjs'),
      current: join(of.current, 'server.mjs'),
      shared: join(of.shared, 'kept'),
      repository: join(of.repository, 'HEAD'),
      files: join(of.statics, 'site', task, 'page.html'),
    }
    for (const file of Object.values(files)) expect(existsSync(file), file).toBe(true)
    const [log = ''] = readdirSync(join(of.logs, 'web'))
    const pid = fixture.state(B, victim.taskId)?.pid as number
    const got = await tryAll({
      ...Object.fromEntries(Object.entries(files).map(([name, file]) => [name, `cat ${file}`])),
      list: `ls ${of.dir}`,
      'list of sockets': `ls ${of.sockets}`,
      log: `cat ${join(of.logs, 'web', log)}`,
      write: `echo x >${join(of.shared, 'planted')}`,
      socket: `${fixture.host.node} -e "require('net').connect('${of.sockets}/app.sock').on('connect', () => process.exit(0)).on('error', () => process.exit(1))"`,
      environment: `cat /proc/${pid}/environ`,
      descriptors: `ls /proc/${pid}/fd`,
      memory: `cat /proc/${pid}/maps`,
      'its own variables': 'cat "$BERTH_VARIABLES_FILE"',
      'its own environment': 'cat /proc/$$/environ',
    })
    expect(got).toEqual(['its own variables', 'its own environment'])
  })

  it('cannot signal or bound its processes, nor become it or root', async () => {
    const state = fixture.state(B, victim.taskId)
    const pid = state?.pid as number
    const { uid } = statSync(environmentPaths(fixture.host.settings, B).shared)
    const got = await tryAll({
      signal: `kill -0 ${pid}`,
      kill: `kill -9 ${pid}`,
      supervisor: `kill -9 ${state?.supervisor.pid}`,
      everybody: `kill -0 1 ${process.pid}`,
      priority: `renice -n 5 -p ${pid}`,
      'another group':
        'echo $$ >/sys/fs/cgroup/cgroup.procs || echo $$ >/sys/fs/cgroup/freezer/tasks',
      root: 'setpriv --reuid=0 --clear-groups true',
      neighbour: `setpriv --reuid=${uid} --clear-groups true`,
      sudo: 'sudo -n true || su -c true root </dev/null || pkexec true',
      mount: 'mount -t tmpfs none /mnt',
      'a device': 'mknod x b 8 0',
      'a capability': '! grep -q "CapBnd:.*0000000000000000" /proc/self/status',
      docker: `test -w ${fixture.host.settings.dockerSocket}`,
      'no new rights': 'grep -q "NoNewPrivs:.*1" /proc/self/status',
      itself: 'sleep 9 & kill -0 $!',
    })
    expect(got).toEqual(['no new rights', 'itself'])
    expect(readProcess(pid)).toBeDefined()
    const port = fixture.rows(B).find(({ service }) => service === 'web')?.port
    expect(await answer(port)).toBe('b')
  })

  it('cannot see keys, databases and sockets of the agent', async () => {
    const { settings } = fixture.host
    const edge = edgePaths(settings)
    const service = { environmentId: B, service: 'web', taskId: victim.taskId }
    const files = {
      key: join(settings.stateDir, 'identity/current/key.pem'),
      ledger: join(settings.stateDir, 'ledger.db'),
      journal: join(settings.stateDir, 'journal.db'),
      attempt: join(victim.dir, 'spec'),
      table: edge.table,
      keys: edge.keys,
      instructions: join(serviceDir(settings, service), 'instructions.json'),
    }
    expect(existsSync(files.key) && existsSync(files.journal) && existsSync(files.table)).toBe(true)
    const got = await tryAll({
      ...Object.fromEntries(Object.entries(files).map(([name, file]) => [name, `cat ${file}`])),
      'list of the state': `ls ${settings.stateDir}`,
      'list of what runs': `ls ${settings.runDir}`,
      'list of attempts': `ls ${join(settings.stateDir, 'attempts')}`,
      'its own scratch': `ls ${scratchDir(settings, '')}`,
      'its own variables, changed': 'echo x >>"$BERTH_VARIABLES_FILE"',
      'its own variables, opened': 'chmod u+w "$BERTH_VARIABLES_FILE"',
      'its own link': 'ln -sfn /etc "$BERTH_RELEASE_DIR/../../current"',
      'a program of Berth': 'echo x >"$BERTH_RELEASE_DIR/../../bin/berth-activate"',
      edge: `${fixture.host.node} -e "require('net').connect('${edge.socket}').on('connect', () => process.exit(0)).on('error', () => process.exit(1))"`,
      'its own release': 'echo x >"$BERTH_RELEASE_DIR/x"',
    })
    expect(got).toEqual(['its own release'])
  })
})

describe.skipIf(!isRoot || !canUnshareMounts('/usr/bin/unshare'))('temporary folders', () => {
  let fixture: ServiceFixture
  beforeAll(async () => {
    // not below /tmp, as in production: commands do not see files there
    fixture = await ServiceFixture.open(mkdtempSync('/var/lib/berth-test-'))
  })
  afterAll(() => fixture.close())

  it('are an environment’s own, for its steps and its services, and homes of people are empty', async () => {
    const word = `berth-${randomBytes(6).toString('hex')}`
    fixture.repository.commit({
      '.service.yml': `manual:
  deploy: ['umask 0022; echo one >/tmp/${word}; ls -A /var/tmp /home']
  services:
    web: { port: auto, run: "cp /tmp/${word} /var/tmp/${word}-seen; exec ${fixture.host.node} server.mjs", env: { VERSION: a, MODE: "" } }
`,
    })
    const deployment = await fixture.host.deploy(fixture.repository, { environmentId: A })
    expect((await deployment.verdict()).message, deployment.log()).toBe('')
    expect(deployment.log()).toContain(`/home:\n\n/var/tmp:\n${word}\n`)
    const { temporary } = environmentPaths(fixture.host.settings, A)
    expect(readdirSync(temporary).sort()).toEqual([word, `${word}-seen`])
    expect(statSync(temporary).mode & 0o777).toBe(0o700)
    for (const folder of ['/tmp', '/var/tmp']) expect(readdirSync(folder)).not.toContain(word)
    fixture.repository.commit({
      '.service.yml': `manual: { deploy: ['! test -e /tmp/${word}'] }\n`,
    })
    const other = await fixture.host.deploy(fixture.repository, { environmentId: B })
    expect((await other.verdict()).message, other.log()).toBe('')
  })
})
