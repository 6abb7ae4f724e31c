// What docs/operations tells people to type, and how each line is tried: on the machines of `npm run chaos -- install`, or
// by another run that is named. pages.test.ts compares this list with the pages.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../../docs/operations', import.meta.url))

/** Lines of blocks marked `sh`, without comments; a line that ends with `\` goes on. */
export function readCommands(): { page: string; line: string }[] {
  const pages = readdirSync(folder).filter((name) => name.endsWith('.md'))
  return pages.flatMap((page) => {
    const text = readFileSync(join(folder, page), 'utf8')
    return [...text.matchAll(/^ *```sh\n([\s\S]*?)^ *```$/gm)].flatMap(([, block = '']) =>
      block
        .replaceAll(/\\\n\s*/g, '')
        .split('\n')
        .map((line) => ({ page, line: line.replace(/\s+# .*$/, '').trim() }))
        .filter(({ line }) => line !== ''),
    )
  })
}

/** Pages with a block that has no language: it may hold commands. */
export const readUnmarked = (): string[] =>
  readdirSync(folder).filter((name) => {
    if (!name.endsWith('.md')) return false
    const fences = readFileSync(join(folder, name), 'utf8').match(/^ *```.*$/gm) ?? []
    return fences.some((fence, n) => n % 2 === 0 && fence.trim() === '```')
  })

interface Typed {
  line: string
  /** `deploy` is the control plane's machine with the client, `server` the other one. */
  on: 'deploy' | 'server'
  /** The line with values of this run; the line itself if absent. */
  as?: string
  /** What it must show. */
  shows?: RegExp
  /** What makes the line possible, or checks it afterwards. */
  before?: string
  after?: string
}

interface Elsewhere {
  line: string
  /** The run that types it. */
  by: string
}

export type Step = Typed | Elsewhere

const RELEASE_TEST = 'test/system/release.test.ts'
const INSTALL = 'npm run chaos -- install, which types it with the values of its machines'
const PACKAGE = 'npm run chaos -- upgrade --machine and test/system/package-upgrade.test.ts'
const UPGRADE = 'npm run chaos -- upgrade and test/system/server-upgrade.test.ts'
const SITE = 'https://releases.example.com'
const DOMAIN = 'deploy.example.com'
const RELEASE = 'cd /root/release && '
const FETCH = `mkdir -p /root/release && cd /root/release && cp /root/release.pub berth-release.pub && for one in SHA256SUMS SHA256SUMS.sig install-server.sh; do curl -fsSO ${SITE}/$one; done && curl -fsSO ${SITE}/$(grep -o 'berth-server-.*-linux-.*tar.gz' SHA256SUMS)`
const BACKUP = '$(ls /backup/berth-*.tar.gz.age)'
const PASSPHRASE = '--passphrase-file /etc/berth/passphrase'

/** In the order in which they are typed. */
export const STEPS: readonly Step[] = [
  {
    line: 'sha256sum -c --ignore-missing SHA256SUMS',
    on: 'deploy',
    before: FETCH,
    as: `${RELEASE}sha256sum -c --ignore-missing SHA256SUMS`,
    shows: /berth-server-.*: OK/,
  },
  {
    line: 'openssl pkeyutl -verify -pubin -inkey berth-release.pub -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig',
    on: 'deploy',
    as: `${RELEASE}openssl pkeyutl -verify -pubin -inkey berth-release.pub -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig`,
    shows: /Signature Verified Successfully/,
  },
  {
    line: `sh install-server.sh --domain ${DOMAIN}`,
    on: 'deploy',
    as: `${RELEASE}sh install-server.sh --domain ${DOMAIN}`,
    after: `curl -fsS --retry 20 --retry-all-errors https://${DOMAIN}/health/ready`,
  },
  // the other machine of several control planes: here the same one, which gets its own settings and key again
  {
    line: 'sh install-server.sh --no-start',
    on: 'deploy',
    as: `${RELEASE}sh install-server.sh --no-start`,
  },
  { line: 'systemctl disable --now berth-server', on: 'deploy' },
  {
    line: 'install -o root -g berth-server -m 640 server.toml server.env /etc/berth/',
    on: 'deploy',
    before: `${RELEASE}cp /etc/berth/server.toml /etc/berth/server.env /var/lib/berth-server/kek .`,
    as: `${RELEASE}install -o root -g berth-server -m 640 server.toml server.env /etc/berth/`,
  },
  {
    line: 'install -o berth-server -g berth-server -m 400 kek /var/lib/berth-server/kek',
    on: 'deploy',
    before: 'rm /var/lib/berth-server/kek',
    as: `${RELEASE}install -o berth-server -g berth-server -m 400 kek /var/lib/berth-server/kek`,
  },
  {
    line: 'rm server.toml server.env kek',
    on: 'deploy',
    as: `${RELEASE}rm server.toml server.env kek`,
  },
  {
    line: 'systemctl enable --now berth-server',
    on: 'deploy',
    after: `curl -fsS --retry 20 --retry-all-errors https://${DOMAIN}/health/ready`,
  },
  { line: `sh install-server.sh --from ${SITE}/berth --domain …`, by: INSTALL },
  { line: 'apt install ./berth-server_VERSION_amd64.deb', by: RELEASE_TEST },
  { line: `curl -fsSL https://${DOMAIN}/install-cli.sh | sh`, by: INSTALL },
  { line: `berth login --url https://${DOMAIN}`, by: INSTALL },
  {
    line: 'npm run release -- keygen /media/offline/berth-release',
    by: RELEASE_TEST,
  },
  { line: 'berth-server reset-two-factor ada@example.com', by: 'test/specs/two-factor.test.ts' },
  { line: 'npm run release', by: RELEASE_TEST },
  { line: 'npm run release -- sign dist/release', by: RELEASE_TEST },
  { line: 'npm run release -- verify dist/release berth-release.pub', by: RELEASE_TEST },
  { line: 'berth-server doctor', on: 'deploy', shows: /certificate/i },
  { line: 'berth-server renew-certificate', on: 'deploy', shows: /orders a certificate/ },
  {
    line: 'cp our-authority.crt /usr/local/share/ca-certificates/ && update-ca-certificates',
    on: 'deploy',
    as: 'cd /root && cp /usr/local/share/ca-certificates/outside-0.crt our-authority.crt && cp our-authority.crt /usr/local/share/ca-certificates/ && update-ca-certificates',
    shows: /added|done/,
  },
  {
    line: `journalctl -u berth-server -o cat | grep '"requestId":"req_'`,
    on: 'deploy',
    shows: /"requestId":"req_.*"msg":"request"/,
  },
  { line: 'install -d -m 700 -o berth-server /backup /elsewhere', on: 'deploy' },
  {
    line: 'berth-server backup --to /backup --recipient age1…',
    on: 'deploy',
    before:
      'head -c 24 /dev/urandom | base64 >/etc/berth/passphrase && chown berth-server /etc/berth/passphrase && chmod 400 /etc/berth/passphrase',
    as: `berth-server backup --to /backup ${PASSPHRASE}`,
    shows: /rows of \d+ tables/,
  },
  {
    line: 'berth-server backup-key --to /elsewhere/berth.key',
    on: 'deploy',
    shows: /is now in \/elsewhere\/berth.key/,
  },
  {
    line: 'berth-server backup list --to /backup',
    on: 'deploy',
    shows: /1 backups at/,
  },
  {
    line: 'berth-server restore /backup/berth-….tar.gz.age --identity-file KEY --rehearse',
    on: 'deploy',
    as: `berth-server restore ${BACKUP} ${PASSPHRASE} --rehearse`,
    shows: /Every table is equal by count and hash/,
  },
  { line: 'berth server add fra-1 --hostname fra-1.example.com', by: INSTALL },
  {
    line: `echo berth_join_… | berth-agent join https://${DOMAIN}`,
    by: 'install.sh, in npm run chaos -- install',
  },
  {
    line: `curl -fsSLO https://${DOMAIN}/install.sh && echo "<digest>  install.sh" | sha256sum -c && echo berth_join_… | sh install.sh --token-file -`,
    by: INSTALL,
  },
  {
    line: 'berth server share fra-1 --with acme',
    on: 'deploy',
    before: `curl -fsS -H "authorization: Bearer $(cat /tmp/token)" -H 'content-type: application/json' -d '{"name":"Other","slug":"other"}' https://${DOMAIN}/api/organizations`,
    as: 'berth server share fra-1 --with other',
  },
  {
    line: 'berth server unshare fra-1 --with acme',
    on: 'deploy',
    as: 'berth server unshare fra-1 --with other',
  },
  {
    line: 'berth-agent move https://berth.example.com',
    on: 'server',
    as: `berth-agent move https://${DOMAIN}`,
  },
  { line: 'berth-agent run', by: 'berth-agent.service, in npm run chaos -- install' },
  { line: 'berth-agent status', on: 'server', shows: /\S/ },
  { line: 'berth-agent doctor', on: 'server', shows: /control plane/i },
  { line: 'berth-agent setup proxy', on: 'server' },
  { line: 'berth-agent setup proxy-account', on: 'server' },
  { line: 'berth-agent services stop', on: 'server' },
  { line: 'berth-agent containers stop', on: 'server' },
  {
    line: 'berth-agent proxy stop',
    on: 'server',
    after: 'systemctl restart berth-agent',
  },
  { line: 'berth-agent uninstall', by: INSTALL },
  {
    line: 'berth backup list -p shop -e production',
    on: 'deploy',
    before: 'berth backup create -p hello -e main --wait',
    as: 'berth backup list -p hello -e main',
    shows: /\d/,
  },
  {
    line: 'berth backup restore 12 -p shop -e staging --wait',
    on: 'deploy',
    as: 'berth backup restore $(berth backup list -p hello -e main | cut -f1) -p hello -e main --wait --confirm main',
  },
  { line: `berth-server upgrade --from ${SITE}/1.16.0`, by: UPGRADE },
  { line: 'apt install ./berth-server_1.16.0_amd64.deb', by: PACKAGE },
  { line: 'berth server upgrade fra-1', by: UPGRADE },
  { line: 'berth server upgrade --all --wait', by: UPGRADE },
  {
    line: `curl -fsSLO https://${DOMAIN}/install.sh && echo "DIGEST  install.sh" | sha256sum -c && sh install.sh`,
    on: 'server',
    as: `cd /tmp && curl -fsSLO https://${DOMAIN}/install.sh && echo "$(curl -fsSL https://${DOMAIN}/install.sh | sha256sum | cut -d' ' -f1)  install.sh" | sha256sum -c && sh install.sh`,
    shows: /install.sh: OK/,
  },
]
