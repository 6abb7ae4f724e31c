// Deploys a chosen version: the newest commit of the branch, an earlier deployment, or any commit of any branch.
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type ReactNode, useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { Button } from '../../components/button.tsx'
import { Dialog } from '../../components/dialog.tsx'
import { Check, Select, Text } from '../../components/forms/field.tsx'
import { Form, isChecked } from '../../components/forms/form.tsx'
import { Loaded } from '../../components/states.tsx'
import { Time } from '../../components/time.tsx'
import type { Environment, Task } from '../../data.ts'
import { short } from '../../format.ts'
import css from './versions.module.css'
import { triggeredBy } from './words.ts'

interface ChoiceProps {
  name: string
  value: string
  isChosen: boolean
  choose(): void
  /** First line. */
  children: ReactNode
  /** Second line. */
  about?: ReactNode
}

function Choice({ name, value, isChosen, choose, children, about }: ChoiceProps) {
  return (
    <label className={css.choice}>
      <input type="radio" name={name} value={value} checked={isChosen} onChange={choose} />
      <span className={css.words}>
        <span className={css.first}>{children}</span>
        {about && <span className={css.second}>{about}</span>}
      </span>
    </label>
  )
}

const isSha = (text: string): boolean => /^[0-9a-f]{7,64}$/.test(text)

interface DeployDialogProps {
  environment: Environment
  /** The deployment that may be repeated; undefined: only new ones are offered. */
  task?: Task
  onClose(): void
}

export function DeployDialog({ environment: e, task, onClose }: DeployDialogProps) {
  const navigate = useNavigate()
  const again = task?.commit_sha ?? null
  const [kind, setKind] = useState<'again' | 'head' | 'other'>(again ? 'again' : 'head')
  const [commit, setCommit] = useState('')
  const sha = kind === 'again' ? again : kind === 'other' ? commit : null
  const reason = kind === 'other' && !isSha(commit) ? 'Choose a commit.' : undefined
  const pick = (next: typeof kind) => () => setKind(next)
  return (
    <Dialog title={`Deploy to ${e.identifier}`} onClose={onClose}>
      <Form
        submit="Deploy"
        done="Deployment started."
        reason={reason}
        beside={<Button onClick={onClose}>Cancel</Button>}
        send={async (data) => {
          const made = await change(
            api.environment.deploy.mutate({
              environment_id: e.id,
              ...(sha ? { commit_sha: sha } : {}),
              ...(isChecked(data, 'no_cache') ? { no_cache: true } : {}),
            }),
          )
          onClose()
          await navigate({ to: '/tasks/$id', params: { id: String(made.id) } })
        }}
      >
        <fieldset className={css.choices}>
          <legend className="visually-hidden">Version</legend>
          {again && (
            <Choice
              name="kind"
              value="again"
              isChosen={kind === 'again'}
              choose={pick('again')}
              about={task?.commit_message}
            >
              Same commit <code>{short(again)}</code>
            </Choice>
          )}
          <Choice name="kind" value="head" isChosen={kind === 'head'} choose={pick('head')}>
            Latest commit of <code>{e.branch}</code>
          </Choice>
          {!e.pull_request?.from_fork && (
            <Choice name="kind" value="other" isChosen={kind === 'other'} choose={pick('other')}>
              Another commit
            </Choice>
          )}
        </fieldset>
        {kind === 'other' && <Commits environment={e} chosen={commit} choose={setCommit} />}
        <Check name="no_cache" label="Build without cache" />
        <p className="muted small">
          Uses the current variables.
          {sha && ` ${e.identifier} stays at this commit until the next push or deployment.`}
        </p>
      </Form>
    </Dialog>
  )
}

interface CommitsProps {
  environment: Environment
  chosen: string
  choose(sha: string): void
}

/** Branches and their newest commits; a full or short SHA can be typed too. */
function Commits({ environment: e, chosen, choose }: CommitsProps) {
  const [branch, setBranch] = useState(e.branch)
  const [filter, setFilter] = useState('')
  const query = useQuery({
    ...trpc.version.commits.queryOptions({ environment_id: e.id, branch }),
    staleTime: 30_000,
    placeholderData: (before) => before, // the list of branches stays while another one is read
  })
  const wanted = filter.trim().toLowerCase()
  const type = (text: string) => {
    setFilter(text)
    const given = text.trim().toLowerCase()
    if (isSha(given)) choose(given)
  }
  return (
    <div className="stack-small">
      <Loaded query={query} what="The repository">
        {(found) => {
          const shown = found.commits.filter(
            (c) =>
              c.sha.startsWith(wanted) || `${c.subject} ${c.author}`.toLowerCase().includes(wanted),
          )
          return (
            <>
              <Select
                label="Branch"
                value={branch}
                onChange={(event) => {
                  setBranch(event.currentTarget.value)
                  choose('')
                }}
              >
                {(found.branches.includes(branch) ? [] : [branch])
                  .concat(found.branches)
                  .map((name) => (
                    <option key={name}>{name}</option>
                  ))}
              </Select>
              <Text
                label="Commit"
                placeholder="Search, or paste a SHA"
                spellCheck={false}
                onChange={(event) => type(event.currentTarget.value)}
              />
              {found.problem && <p className="muted small">{found.problem}</p>}
              {!query.isPlaceholderData && (
                <fieldset className={css.list}>
                  <legend className="visually-hidden">Commits of {branch}</legend>
                  {shown.map((c) => (
                    <Choice
                      key={c.sha}
                      name="commit"
                      value={c.sha}
                      isChosen={chosen !== '' && c.sha.startsWith(chosen)}
                      choose={() => choose(c.sha)}
                      about={
                        <>
                          {c.author}, <Time at={c.at} />
                        </>
                      }
                    >
                      <code>{short(c.sha)}</code> {c.subject}
                    </Choice>
                  ))}
                  {shown.length === 0 && found.problem === null && (
                    <p className="muted small">
                      {isSha(wanted) ? 'Not among the newest commits.' : 'No commit matches.'}
                    </p>
                  )}
                </fieldset>
              )}
            </>
          )
        }}
      </Loaded>
    </div>
  )
}

interface RollBackProps {
  environment: Environment
  /** The version that is chosen at first; null: the newest one. */
  commit: string | null
  onClose(): void
}

export function RollBackDialog({ environment: e, commit, onClose }: RollBackProps) {
  const query = useQuery(trpc.version.list.queryOptions({ environment_id: e.id }))
  return (
    <Dialog title={`Roll back ${e.identifier}`} onClose={onClose}>
      <Loaded query={query} what="Earlier versions">
        {({ versions }) => (
          <RollBackForm environment={e} versions={versions} commit={commit} onClose={onClose} />
        )}
      </Loaded>
    </Dialog>
  )
}

type Version = Awaited<ReturnType<typeof api.version.list.query>>['versions'][number]

function RollBackForm(props: RollBackProps & { versions: readonly Version[] }) {
  const { environment: e, versions, onClose } = props
  const navigate = useNavigate()
  const [sha, setSha] = useState(props.commit ?? versions[0]?.commit_sha ?? '')
  const chosen = versions.find((v) => v.commit_sha === sha)
  if (versions.length === 0) {
    return (
      <>
        <p>No earlier version has been deployed successfully.</p>
        <div className="row">
          <Button onClick={onClose}>Close</Button>
        </div>
      </>
    )
  }
  return (
    <Form
      submit="Roll back"
      done="Rollback started."
      beside={<Button onClick={onClose}>Cancel</Button>}
      send={async () => {
        const message = chosen ? `Rollback to deployment ${chosen.task_id}` : null
        const made = await change(
          api.environment.deploy.mutate({
            environment_id: e.id,
            commit_sha: sha,
            reuse_release: true,
            ...(message ? { message } : {}),
          }),
        )
        onClose()
        await navigate({ to: '/tasks/$id', params: { id: String(made.id) } })
      }}
    >
      <fieldset className={css.list}>
        <legend className="visually-hidden">Version</legend>
        {versions.map((v) => (
          <Choice
            key={v.task_id}
            name="version"
            value={v.commit_sha}
            isChosen={v.commit_sha === sha}
            choose={() => setSha(v.commit_sha)}
            about={<AboutVersion version={v} server={e.server.name} />}
          >
            <code>{short(v.commit_sha)}</code> {v.commit_message ?? v.branch}
          </Choice>
        ))}
      </fieldset>
      <p className="muted small">
        {chosen?.is_kept
          ? `${e.server.name} still has this version, so nothing is built.`
          : 'This version is built again.'}{' '}
        Uses the current variables. {e.identifier} stays there until the next push or deployment.
      </p>
    </Form>
  )
}

function AboutVersion({ version: v, server }: { version: Version; server: string }) {
  const by = triggeredBy({ trigger: v.trigger, triggered_by: { id: null, name: v.triggered_by } })
  return (
    <>
      {v.commit_author && `${v.commit_author}, `}
      {v.finished_at && <Time at={v.finished_at} />}, {by}
      {v.is_kept && <span className={css.kept}>On {server}</span>}
    </>
  )
}
