// The repository of a project as the control plane sees it: whether it is readable, with which key, and what Berth
// reports to its forge.
import { useQuery } from '@tanstack/react-query'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { api, change, trpc } from '../../api.ts'
import { ActButton, Ask } from '../../components/act.tsx'
import { Button } from '../../components/button.tsx'
import { CopyField } from '../../components/copy.tsx'
import { Secret } from '../../components/forms/field.tsx'
import { Form, text } from '../../components/forms/form.tsx'
import { Facts, Section } from '../../components/page.tsx'
import { Loaded, Note } from '../../components/states.tsx'
import { Time } from '../../components/time.tsx'
import type { Project } from '../../data.ts'
import { count } from '../../format.ts'
import { nameOfKind } from './forge.tsx'
import { HostKey } from './host-key.tsx'

export function Repository({
  project: p,
  reason,
}: {
  project: Project
  reason: string | undefined
}) {
  const key = useQuery(trpc.project.deployKey.queryOptions({ project_id: p.id }))
  const [isAsking, ask] = useState(false)
  return (
    <Section title="Repository">
      <Facts
        of={[
          ['Forge', p.repository.provider ? nameOfKind(p.repository.provider) : 'Not known yet'],
          [
            'Reachable',
            p.repository.reachable === null
              ? 'Not checked yet'
              : p.repository.reachable
                ? 'Yes'
                : (p.repository.error?.message ?? 'No'),
          ],
          [
            'Checked',
            p.repository.checked_at ? <Time key="c" at={p.repository.checked_at} /> : 'Never',
          ],
        ]}
      />
      {p.repository.renamed_to && (
        <Note kind="warn">
          The forge says that the repository is now {p.repository.renamed_to}.
        </Note>
      )}
      <CheckRepository id={p.id}>
        <ActButton
          act={() => change(api.project.reconcile.mutate({ project_id: p.id }))}
          done="Checking. Missed pushes appear under Webhooks."
        >
          Find missed pushes
        </ActButton>
      </CheckRepository>
      <h3>Deploy key</h3>
      <Loaded query={key} what="The deploy key" lines={1}>
        {(k) => (
          <>
            <CopyField label="deploy key" text={k.public_key} />
            <p className="muted small">
              {k.fingerprint}, created <Time at={k.created_at} />. Read-only is enough.
            </p>
            {k.previous && (
              <Note kind="warn">You can remove the previous key at the forge: {k.previous}</Note>
            )}
          </>
        )}
      </Loaded>
      <div className="row">
        <Button reason={reason} onClick={() => ask(true)}>
          Regenerate key
        </Button>
      </div>
      {isAsking && (
        <Ask
          title="Regenerate the deploy key?"
          submit="Regenerate key"
          onClose={() => ask(false)}
          send={() => change(api.project.replaceDeployKey.mutate({ project_id: p.id }))}
          done="Add the new key at the forge."
        >
          <p>
            Deployments cannot read a private repository until you add the new key at the forge.
          </p>
        </Ask>
      )}
      <HostKey project={p} />
      {p.forge.connected && !p.host_token.set ? null : <OwnToken project={p} reason={reason} />}
    </Section>
  )
}

/** A token of the project alone, which only reports; a connection does that and more. */
function OwnToken({ project: p, reason }: { project: Project; reason: string | undefined }) {
  return (
    <>
      <h3>Forge token</h3>
      <p className="muted">
        {p.host_token.set ? 'A token is set.' : 'No token is set.'} Berth uses it to report
        statuses, to comment, and to find missed pull requests. {p.host_token.error}
      </p>
      <Form
        submit="Save token"
        kind="plain"
        done="The forge accepted it."
        clears
        isRow
        reason={reason}
        label="Forge token"
        send={(data) =>
          change(api.project.setForgeToken.mutate({ project_id: p.id, token: text(data, 'token') }))
        }
        beside={
          p.host_token.set && (
            <ActButton
              act={() => change(api.project.removeForgeToken.mutate({ project_id: p.id }))}
              done="Removed."
            >
              Remove
            </ActButton>
          )
        }
      >
        <Secret label="Token" name="token" required />
      </Form>
    </>
  )
}

type Checked = Awaited<ReturnType<typeof api.project.check.mutate>>

interface CheckProps {
  id: number
  /** Checks once without a click. */
  isAutomatic?: boolean
  /** Further actions beside the button. */
  children?: ReactNode
}

export function CheckRepository({ id, isAutomatic = false, children }: CheckProps) {
  const [isBusy, setBusy] = useState(false)
  const [found, setFound] = useState<Checked | string>()
  const isBegun = useRef(false)
  // biome-ignore lint/correctness/useExhaustiveDependencies: once, when it becomes possible
  useEffect(() => {
    if (!isAutomatic || isBegun.current) return
    isBegun.current = true
    void look()
  }, [isAutomatic])
  const look = async () => {
    setBusy(true)
    await change(api.project.check.mutate({ project_id: id })).then(setFound, (error: Error) =>
      setFound(error.message),
    )
    setBusy(false)
  }
  return (
    <div className="stack-small">
      <div className="row">
        <Button busy={isBusy} onClick={() => void look()}>
          Check repository
        </Button>
        {children}
      </div>
      <div role="status">{found !== undefined && <Found found={found} />}</div>
    </div>
  )
}

function Found({ found }: { found: Checked | string }) {
  if (typeof found === 'string') return <Note kind="bad">{found}</Note>
  if (!found.reachable) {
    return <Note kind="bad">{found.error?.message ?? 'The repository cannot be read.'}</Note>
  }
  const file = found.service_file
  return (
    <Note kind={file?.found && file.errors.length === 0 ? 'ok' : 'warn'}>
      The repository can be read ({count(found.branch_count ?? 0, 'branch', 'branches')}, default{' '}
      {found.default_branch}).{' '}
      {file?.found ? 'It has a .service.yml.' : 'It has no .service.yml yet.'}
      {file && file.errors.length > 0 && (
        <ul>
          {file.errors.map((e) => (
            <li key={`${e.line} ${e.message}`}>
              Line {e.line}: {e.message}
            </li>
          ))}
        </ul>
      )}
    </Note>
  )
}
