// What a task of one environment can reach of another one and of the agent itself: nothing. Environment A runs commands that
// try, with everything a machine offers; each prints a word when it got through. The same commands on its own things must
// print theirs, or the silence means nothing.
import { randomBytes } from 'node:crypto'
import { existsSync, mkdtempSync, readdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { AttemptState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Journal } from '../../agent/src/journal/journal.ts'
import { writeIdentity } from '../../agent/src/link/identity/identity.ts'
import { environmentPlaces } from '../../agent/src/machine/files.ts'
import { canUnshareMounts } from '../../agent/src/machine/process/namespaces.ts'
import { readProcess } from '../../agent/src/machine/process/processes.ts'
import { edgePlaces } from '../../agent/src/proxy/paths.ts'
import { scratchDir } from '../../agent/src/settings.ts'
import { serviceDir } from '../../agent/src/supervise/instructions.ts'
import type { Deployment } from '../fixtures/server/deployment.ts'
import { isRoot } from '../fixtures/server/server.ts'
import { answer, ServiceLab } from '../fixtures/server/service.ts'

const A = 1
const B = 2
const SECRET = 'b-keeps-this-to-itself'

describe.skipIf(!isRoot)('a task of one environment', () => {
  let lab: ServiceLab
  let victim: Deployment
  beforeAll(async () => {
    lab = await ServiceLab.open()
    writeIdentity(lab.host.settings, {
      key: 'agent key',
      certificate: 'certificate',
      ca: ['ca'],
    } as never)
    const journal = Journal.open(lab.host.settings.stateDir, { bootId: 'b', now: () => 0 } as never)
    journal.close()
    lab.repository.commit({
      'listen.cjs':
        "require('http').createServer((q, r) => r.end('ok')).listen(process.env.BERTH_SOCKET_DIR + '/app.sock')\n",
      '.service.yml': `manual:
  deploy: ['echo "$TOKEN" >"$BERTH_SHARED_DIR/kept"; mkdir public; echo page >public/page.html']
  services:
    web: { port: auto, run: exec ${lab.host.node} server.mjs, env: { VERSION: b, MODE: "" } }
    app: { socket: app.sock, run: exec ${lab.host.node} listen.cjs }
    site: { root: public }
`,
    })
    victim = await lab.host.deploy(lab.repository, {
      environmentId: B,
      variables: { TOKEN: SECRET },
      grantedHosts: ['app', 'site'].map((name) => `${name}-pr-42-${B}.shop.example.com`),
    })
    expect((await victim.verdict()).message, victim.log()).toBe('')
  })
  afterAll(() => lab.close())

  /** Runs each command in environment A; the words that were printed. */
  async function tryAll(commands: Record<string, string>): Promise<string[]> {
    const tries = Object.entries(commands).map(
      ([word, command]) =>
        `if (${command}) >/dev/null 2>&1; then echo "got:${word}"; else echo "refused:${word}"; fi`,
    )
    // in a file: one step is enough, and no line of it is repeated in the log
    lab.repository.commit({
      'try.sh': `${tries.join('\n')}\n`,
      '.service.yml': 'manual: { deploy: [sh try.sh] }\n',
    })
    const deployment = await lab.host.deploy(lab.repository, { environmentId: A })
    const verdict = await deployment.verdict()
    expect([verdict.message, verdict.state]).toEqual(['', AttemptState.SUCCEEDED])
    const words = [...deployment.log().matchAll(/^(got|refused):(.*?)\r?$/gm)]
    expect(words).toHaveLength(tries.length)
    expect(deployment.log()).not.toContain(SECRET)
    return words.filter(([, how]) => how === 'got').map(([, , word]) => word as string)
  }

  it('cannot read files, variables, sockets or logs of another one', async () => {
    const of = environmentPlaces(lab.host.settings, B)
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
    const pid = lab.state(B, victim.taskId)?.pid as number
    const got = await tryAll({
      ...Object.fromEntries(Object.entries(files).map(([name, file]) => [name, `cat ${file}`])),
      list: `ls ${of.dir}`,
      'list of sockets': `ls ${of.sockets}`,
      log: `cat ${join(of.logs, 'web', log)}`,
      write: `echo x >${join(of.shared, 'planted')}`,
      socket: `${lab.host.node} -e "require('net').connect('${of.sockets}/app.sock').on('connect', () => process.exit(0)).on('error', () => process.exit(1))"`,
      environment: `cat /proc/${pid}/environ`,
      descriptors: `ls /proc/${pid}/fd`,
      memory: `cat /proc/${pid}/maps`,
      'its own variables': 'cat "$BERTH_VARIABLES_FILE"',
      'its own environment': 'cat /proc/$$/environ',
    })
    expect(got).toEqual(['its own variables', 'its own environment'])
  })

  it('cannot signal or bound its processes, nor become it or root', async () => {
    const state = lab.state(B, victim.taskId)
    const pid = state?.pid as number
    const { uid } = statSync(environmentPlaces(lab.host.settings, B).shared)
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
      docker: `test -w ${lab.host.settings.dockerSocket}`,
      'no new rights': 'grep -q "NoNewPrivs:.*1" /proc/self/status',
      itself: 'sleep 9 & kill -0 $!',
    })
    expect(got).toEqual(['no new rights', 'itself'])
    expect(readProcess(pid)).toBeDefined()
    const port = lab.rows(B).find(({ service }) => service === 'web')?.port
    expect(await answer(port)).toBe('b')
  })

  it('cannot see keys, books and doors of the agent', async () => {
    const { settings } = lab.host
    const edge = edgePlaces(settings)
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
      edge: `${lab.host.node} -e "require('net').connect('${edge.socket}').on('connect', () => process.exit(0)).on('error', () => process.exit(1))"`,
      'its own release': 'echo x >"$BERTH_RELEASE_DIR/x"',
    })
    expect(got).toEqual(['its own release'])
  })
})

describe.skipIf(!isRoot || !canUnshareMounts('/usr/bin/unshare'))('temporary folders', () => {
  let lab: ServiceLab
  beforeAll(async () => {
    // not below /tmp, as everywhere but in tests: commands do not see what lies there
    lab = await ServiceLab.open(mkdtempSync('/var/lib/berth-test-'))
  })
  afterAll(() => lab.close())

  it('are an environment’s own, for its steps and its services, and homes of people are empty', async () => {
    const word = `berth-${randomBytes(6).toString('hex')}`
    lab.repository.commit({
      '.service.yml': `manual:
  deploy: ['umask 0022; echo one >/tmp/${word}; ls -A /var/tmp /home']
  services:
    web: { port: auto, run: "cp /tmp/${word} /var/tmp/${word}-seen; exec ${lab.host.node} server.mjs", env: { VERSION: a, MODE: "" } }
`,
    })
    const deployment = await lab.host.deploy(lab.repository, { environmentId: A })
    expect((await deployment.verdict()).message, deployment.log()).toBe('')
    expect(deployment.log()).toContain(`/home:\n\n/var/tmp:\n${word}\n`)
    const { temporary } = environmentPlaces(lab.host.settings, A)
    expect(readdirSync(temporary).sort()).toEqual([word, `${word}-seen`])
    expect(statSync(temporary).mode & 0o777).toBe(0o700)
    for (const folder of ['/tmp', '/var/tmp']) expect(readdirSync(folder)).not.toContain(word)
    lab.repository.commit({ '.service.yml': `manual: { deploy: ['! test -e /tmp/${word}'] }\n` })
    const other = await lab.host.deploy(lab.repository, { environmentId: B })
    expect((await other.verdict()).message, other.log()).toBe('')
  })
})
