// The rules for pull requests and pushes.
import { api, change } from '../../../api.ts'
import { Area, Check, Select, Text } from '../../../components/forms/field.tsx'
import { Form, isChecked, lines, text } from '../../../components/forms/form.tsx'
import { useSteadyKey } from '../../../components/forms/unsaved.tsx'
import { Section } from '../../../components/page.tsx'
import type { PartProps } from './general.tsx'

export function PullRequests({ project: p, reason }: PartProps) {
  const [key, track] = useSteadyKey([
    p.pull_request_environments,
    p.deploy_drafts,
    p.auto_deploy,
    p.skip_marker,
    p.comment_on_pull_requests,
    p.fork_pull_requests,
    p.pull_request_bases,
    p.watch_paths,
    p.lost_after_seconds,
  ])
  return (
    <Section title="Pull requests and pushes">
      <Form
        key={key}
        submit="Save changes"
        done="Saved."
        reason={reason}
        label="Pull requests and pushes"
        onDirty={track}
        send={(data) =>
          change(
            api.project.update.mutate({
              project_id: p.id,
              pull_request_environments: isChecked(data, 'pull_request_environments'),
              deploy_drafts: isChecked(data, 'deploy_drafts'),
              auto_deploy: isChecked(data, 'auto_deploy'),
              skip_marker: isChecked(data, 'skip_marker'),
              comment_on_pull_requests: isChecked(data, 'comment_on_pull_requests'),
              fork_pull_requests: text(data, 'fork_pull_requests') as 'approve' | 'never',
              pull_request_bases: lines(data, 'pull_request_bases'),
              watch_paths: lines(data, 'watch_paths'),
              lost_after_seconds: Number(text(data, 'lost_after_seconds')),
            }),
          )
        }
      >
        <Check
          label="Create an environment for each pull request"
          name="pull_request_environments"
          defaultChecked={p.pull_request_environments}
        />
        <Check label="Include drafts" name="deploy_drafts" defaultChecked={p.deploy_drafts} />
        <Check
          label="Deploy new environments on push"
          name="auto_deploy"
          defaultChecked={p.auto_deploy}
        />
        <Check
          label="Honour [skip deploy] in commit messages"
          name="skip_marker"
          defaultChecked={p.skip_marker}
        />
        <Check
          label="Comment on pull requests with the address"
          name="comment_on_pull_requests"
          hint="Needs a connected forge."
          defaultChecked={p.comment_on_pull_requests}
        />
        <Select
          label="Pull requests from forks"
          name="fork_pull_requests"
          defaultValue={p.fork_pull_requests}
          hint="Code from forks runs on your server. It gets only variables that are marked for forks."
        >
          <option value="approve">Approve each commit</option>
          <option value="never">Never deploy</option>
        </Select>
        <Area
          label="Base branches"
          name="pull_request_bases"
          rows={2}
          hint="One pattern per line. ** matches every branch."
          defaultValue={p.pull_request_bases.join('\n')}
        />
        <Area
          label="Watched paths"
          name="watch_paths"
          rows={2}
          hint="Only pushes that change one of these paths deploy. Leave empty to deploy every push."
          defaultValue={p.watch_paths.join('\n')}
        />
        <Text
          label="Seconds until a deployment on a silent server counts as lost"
          name="lost_after_seconds"
          type="number"
          min={60}
          max={86400}
          defaultValue={p.lost_after_seconds}
        />
      </Form>
    </Section>
  )
}
