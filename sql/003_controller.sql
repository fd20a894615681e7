-- SPDX-License-Identifier: Apache-2.0
--
-- What caisson-controller and caisson (the CLI as operator of the database)
-- call. The controller picks up whatever is left over; it never works on an
-- operation whose lease another process holds.

SET LOCAL ROLE caisson_owner;

-- ---- first start ----

-- Tenant, project and key if they are not there yet; called by `caisson up`
-- and by tests as a superuser or caisson_owner. p_key_prefix: the key's first
-- 12 characters; p_sha256_hex: of the whole key. A key with this prefix that
-- exists already is left as it is. Returns the ids.
CREATE FUNCTION caisson.bootstrap(p_tenant_name text, p_project_name text,
	p_key_name text, p_role text, p_key_prefix text, p_sha256_hex text)
RETURNS TABLE (tenant text, project text, key text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	t text;
	p text;
	k text;
BEGIN
	INSERT INTO caisson.tenants (id, name)
		VALUES (caisson.new_id('ten_'), p_tenant_name)
		ON CONFLICT (name) WHERE deleted_at IS NULL DO NOTHING;
	SELECT x.id INTO t FROM caisson.tenants x
		WHERE x.name = p_tenant_name AND x.deleted_at IS NULL;
	INSERT INTO caisson.projects (id, tenant, name)
		VALUES (caisson.new_id('prj_'), t, p_project_name)
		ON CONFLICT (tenant, name) DO NOTHING;
	SELECT x.id INTO p FROM caisson.projects x
		WHERE x.tenant = t AND x.name = p_project_name;
	INSERT INTO caisson.api_keys (id, tenant, project, name, role, prefix,
		sha256)
	VALUES (caisson.new_id('key_'), t, p, p_key_name, p_role,
		p_key_prefix, decode(p_sha256_hex, 'hex'))
	ON CONFLICT (prefix) DO NOTHING;
	SELECT x.id INTO k FROM caisson.api_keys x
		WHERE x.prefix = p_key_prefix;
	RETURN QUERY SELECT t, p, k;
END $$;

-- ---- nodes ----

-- What GET /v1/node said, as it came (jsonb), and where the node is reached.
-- Insert or refresh; prolongs the node's lease. Asynchronous commit.
-- Returns true if the node has a new incarnation since last time: then its
-- list must be read, and events start again at 0.
CREATE FUNCTION caisson.node_heartbeat(p_rpc text, p_data text, p_node jsonb,
	p_lease_s integer)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
	v_old text;
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true);
	SELECT n.incarnation INTO v_old FROM caisson.nodes n
		WHERE n.name = p_node ->> 'name' FOR UPDATE;
	INSERT INTO caisson.nodes AS n (name, incarnation, version, rpc, data,
		engine, isolation, reason, slots, memory_mib, vcpus,
		used_sandboxes, used_slots, used_memory_mib, waiting_vmms,
		cluster_epoch, lease_until, heartbeat_at)
	VALUES (p_node ->> 'name', p_node ->> 'incarnation',
		p_node ->> 'version', p_rpc, p_data,
		p_node #>> '{engine,name}',
		coalesce(p_node #>> '{engine,isolation}', 'none'),
		coalesce(p_node #>> '{engine,reason}', ''),
		coalesce((p_node #>> '{capacity,slots}')::integer, 0),
		coalesce((p_node #>> '{capacity,memory_mib}')::bigint, 0),
		coalesce((p_node #>> '{capacity,vcpus}')::integer, 0),
		coalesce((p_node #>> '{used,sandboxes}')::integer, 0),
		coalesce((p_node #>> '{used,slots}')::integer, 0),
		coalesce((p_node #>> '{used,memory_mib}')::bigint, 0),
		coalesce((p_node ->> 'waiting_vmms')::integer, 0),
		coalesce((p_node ->> 'cluster_epoch')::bigint, 0),
		now() + p_lease_s * interval '1 second', now())
	ON CONFLICT (name) DO UPDATE SET
		events_after = CASE
			WHEN n.incarnation = excluded.incarnation
			THEN n.events_after ELSE 0 END,
		incarnation = excluded.incarnation,
		version = excluded.version, rpc = excluded.rpc,
		data = excluded.data, engine = excluded.engine,
		isolation = excluded.isolation, reason = excluded.reason,
		slots = excluded.slots, memory_mib = excluded.memory_mib,
		vcpus = excluded.vcpus,
		used_sandboxes = excluded.used_sandboxes,
		used_slots = excluded.used_slots,
		used_memory_mib = excluded.used_memory_mib,
		waiting_vmms = excluded.waiting_vmms,
		cluster_epoch = excluded.cluster_epoch,
		lease_until = excluded.lease_until,
		heartbeat_at = excluded.heartbeat_at;
	RETURN v_old IS DISTINCT FROM p_node ->> 'incarnation';
END $$;

-- Become, or stay, the controller that follows this node's events. true: it is
-- ours for p_lease_s, and *events_after is where to go on.
CREATE FUNCTION caisson.node_own(p_name text, p_owner text, p_lease_s integer)
RETURNS TABLE (ours boolean, events_after bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true);
	RETURN QUERY UPDATE caisson.nodes n
		SET owner = p_owner,
		    owner_until = now() + p_lease_s * interval '1 second'
		WHERE n.name = p_name AND (n.owner IS NULL
			OR n.owner = p_owner OR n.owner_until < now())
		RETURNING true, n.events_after;
	IF NOT FOUND THEN
		RETURN QUERY SELECT false, 0::bigint;
	END IF;
END $$;

-- Events up to p_after were worked off (their effects are committed).
CREATE FUNCTION caisson.node_events_done(p_name text, p_incarnation text,
	p_after bigint)
RETURNS void
LANGUAGE sql AS $$
	SELECT set_config('synchronous_commit', 'off', true);
	UPDATE caisson.nodes n SET events_after = p_after
		WHERE n.name = p_name AND n.incarnation = p_incarnation
$$;

-- What should be on this node, to compare with its list: every sandbox that
-- is not final. settled: no operation is active, so a running sandbox that
-- the node does not list is gone.
CREATE FUNCTION caisson.node_sandboxes(p_name text)
RETURNS TABLE (id text, desired text, observed text, generation bigint,
	fence bigint, settled boolean)
LANGUAGE sql STABLE AS $$
	SELECT s.id, s.desired, s.observed, s.generation, s.fence,
		NOT EXISTS (SELECT FROM caisson.operations o
			WHERE o.sandbox = s.id
			  AND o.state IN ('pending', 'running'))
	FROM caisson.sandboxes s
	WHERE s.node = p_name
	  AND s.observed NOT IN ('ended', 'failed', 'lost')
$$;

-- Of these ids (a text array literal) on the node, those that no row knows as
-- alive there: leaks, to be ended on the node. final: the row is final;
-- unknown ids come with NULL.
CREATE FUNCTION caisson.node_strangers(p_name text, p_ids text[])
RETURNS TABLE (id text, observed text)
LANGUAGE sql STABLE AS $$
	SELECT i, s.observed FROM unnest(p_ids) AS i
	LEFT JOIN caisson.sandboxes s ON s.id = i
	WHERE s.id IS NULL OR s.node IS DISTINCT FROM p_name
	   OR s.observed IN ('ended', 'failed', 'lost')
$$;

-- ---- observations ----

-- The words of an end in the sandbox record, from those of the node.
CREATE FUNCTION caisson.end_reason_of(p_node_reason text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE
		WHEN p_node_reason IN ('request', 'oom', 'guest_panic',
			'node_lost', 'timeout', 'idle', 'policy', 'admin')
		THEN p_node_reason ELSE 'error' END
$$;

-- The node says (event, or absence from its list) that the VM is gone.
-- p_observed: ended, or lost with p_reason node_lost. Ends the row and what is
-- active: an end succeeds, everything else fails. Absent from the list of a
-- node that lives, while its end is wanted, is ended, whatever the caller
-- concluded from an older row. Commits synchronously: a final state that a
-- client was told stays. false: the row was final already, lives elsewhere, or
-- is unknown; nothing changed.
CREATE FUNCTION caisson.sandbox_gone(p_node text, p_id text,
	p_observed text, p_reason text, p_detail text)
RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
	s caisson.sandboxes;
	v_reason text;
	v_observed text := p_observed;
BEGIN
	SELECT * INTO s FROM caisson.sandboxes x
		WHERE x.id = p_id AND x.node = p_node FOR UPDATE;
	IF NOT FOUND OR caisson.is_final(s.observed) THEN
		RETURN false;
	END IF;
	IF s.desired = 'deleted' AND EXISTS (SELECT FROM caisson.nodes n
		WHERE n.name = p_node AND n.lease_until > now()) THEN
		v_observed := 'ended';
	END IF;
	SELECT o.reason INTO v_reason FROM caisson.operations o
		WHERE o.sandbox = p_id AND o.kind = 'end'
		ORDER BY o.seq DESC LIMIT 1;
	UPDATE caisson.operations o
		SET state = CASE WHEN o.kind = 'end' THEN 'succeeded'
			ELSE 'failed' END,
		    error = CASE WHEN o.kind <> 'end' THEN json_build_object(
			'code', 'wrong_state', 'cause', 'node', 'message',
			'the sandbox ended meanwhile: ' || p_detail) END,
		    finished_at = now(), owner = NULL
		WHERE o.sandbox = p_id AND o.state IN ('pending', 'running');
	UPDATE caisson.sandboxes x
		SET observed = v_observed, activity = NULL,
		    observed_generation = x.generation,
		    end_reason = coalesce(v_reason,
			caisson.end_reason_of(p_reason)),
		    end_detail = CASE WHEN v_reason IS NULL
			THEN p_reason || ': ' || p_detail END,
		    end_at = now(), updated_at = now()
		WHERE x.id = p_id;
	RETURN true;
END $$;

-- ---- operations ----

-- Take over what nobody works on: operations whose lease ran out. Skips rows
-- that others are claiming. The caller then tells the node (ensure and end are
-- idempotent there), and answers with sandbox_observe(NULL, op, generation, …),
-- build_finish(NULL, op, error), or operation_release() to try again later.
-- time_left_ms may be negative: then end it (sandbox_observe … 'failed').
-- release: {digest, kernel, initramfs, root, root_format, defaults}.
-- resources: {vcpus, memory_mib, disk_mib}.
CREATE FUNCTION caisson.operation_claim(p_owner text, p_lease_s integer,
	p_limit integer)
RETURNS TABLE (op text, kind text, attempts integer, time_left_ms bigint,
	sandbox text, generation bigint, fence bigint, node text, rpc text,
	incarnation text, hostname text, resources json, release json,
	trace text, node_alive boolean)
LANGUAGE sql AS $$
	WITH due AS (
		SELECT o.id FROM caisson.operations o
		WHERE o.state IN ('pending', 'running')
		  AND o.lease_until < now()
		ORDER BY o.lease_until LIMIT p_limit
		FOR UPDATE SKIP LOCKED
	), mine AS (
		UPDATE caisson.operations o
		SET owner = p_owner, state = 'running',
		    attempts = o.attempts + 1,
		    lease_until = now() + p_lease_s * interval '1 second',
		    started_at = coalesce(o.started_at, now())
		FROM due WHERE o.id = due.id
		RETURNING o.*
	)
	SELECT m.id, m.kind, m.attempts,
		(extract(epoch FROM m.deadline - now()) * 1000)::bigint,
		m.sandbox, m.generation, s.fence, m.node, n.rpc,
		n.incarnation, coalesce(s.name, s.id),
		json_build_object(
			'vcpus', coalesce(s.vcpus,
				(r.manifest #>> '{defaults,vcpus}')::integer),
			'memory_mib', coalesce(s.memory_mib,
				(r.manifest #>> '{defaults,memory_mib}')
				::integer),
			'disk_mib', coalesce(s.disk_mib,
				(r.manifest #>> '{defaults,disk_mib}')
				::integer)),
		((r.manifest - 'provenance')
			|| jsonb_build_object('digest', r.digest))::json,
		m.trace, coalesce(n.lease_until > now(), false)
	FROM mine m
	LEFT JOIN caisson.sandboxes s ON s.id = m.sandbox
	LEFT JOIN caisson.nodes n ON n.name = m.node
	LEFT JOIN LATERAL (SELECT x.manifest, x.digest
		FROM caisson.template_releases x
		WHERE x.digest = coalesce(s.release, m.request ->> 'release')
		LIMIT 1) r ON true
$$;

-- Sandboxes whose time is over, or whose tenant is gone: the wish to end (reason
-- timeout, admin) and a pending operation each, which operation_claim() then hands out. Returns how many.
CREATE FUNCTION caisson.sandbox_expire(p_limit integer)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
	s caisson.sandboxes;
	n integer := 0;
BEGIN
	FOR s IN SELECT * FROM caisson.sandboxes x
		WHERE x.ends_at <= now() AND x.desired <> 'deleted'
		  AND x.observed NOT IN ('ended', 'failed', 'lost')
		ORDER BY x.ends_at LIMIT p_limit FOR UPDATE SKIP LOCKED
	LOOP
		PERFORM caisson.end_locked(s, caisson.new_id('op_'),
			'timeout', 'controller', NULL, NULL, 0, 60);
		n := n + 1;
	END LOOP;
	-- creates that were under way when their tenant was deleted
	FOR s IN SELECT x.* FROM caisson.tenants t
		JOIN caisson.sandboxes x ON x.tenant = t.id
		WHERE t.deleted_at > now() - interval '10 minutes'
		  AND x.desired <> 'deleted'
		  AND x.observed NOT IN ('ended', 'failed', 'lost')
		LIMIT p_limit FOR UPDATE OF x SKIP LOCKED
	LOOP
		PERFORM caisson.end_locked(s, caisson.new_id('op_'),
			'admin', 'controller', NULL, NULL, 0, 60);
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;

-- Sandboxes of nodes that have been silent for p_grace_s beyond their lease:
-- observed becomes lost, the fence is raised so that a returning node must end
-- them. Returns how many.
CREATE FUNCTION caisson.sandbox_lost(p_grace_s integer, p_limit integer)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
	s record;
	n integer := 0;
BEGIN
	FOR s IN SELECT x.id, x.node FROM caisson.sandboxes x
		JOIN caisson.nodes d ON d.name = x.node
		WHERE d.lease_until + p_grace_s * interval '1 second' < now()
		  AND x.observed NOT IN ('ended', 'failed', 'lost')
		LIMIT p_limit FOR UPDATE OF x SKIP LOCKED
	LOOP
		IF caisson.sandbox_gone(s.node, s.id, 'lost', 'node_lost',
			'node ' || s.node || ' does not answer') THEN
			UPDATE caisson.sandboxes x SET fence = x.fence + 1
				WHERE x.id = s.id;
			n := n + 1;
		END IF;
	END LOOP;
	RETURN n;
END $$;

-- Forget: ended sandboxes and finished operations after 7 days, idempotency
-- keys after 24 h. At most p_limit rows of each kind; returns how many.
CREATE FUNCTION caisson.gc(p_limit integer)
RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
	n integer;
	total integer := 0;
BEGIN
	DELETE FROM caisson.idempotency_keys i WHERE i.ctid IN (
		SELECT x.ctid FROM caisson.idempotency_keys x
		WHERE x.created_at < now() - interval '24 hours'
		LIMIT p_limit FOR UPDATE SKIP LOCKED);
	GET DIAGNOSTICS n = ROW_COUNT;
	total := total + n;
	DELETE FROM caisson.operations o WHERE o.id IN (
		SELECT x.id FROM caisson.operations x
		WHERE x.finished_at < now() - interval '7 days'
		LIMIT p_limit FOR UPDATE SKIP LOCKED);
	GET DIAGNOSTICS n = ROW_COUNT;
	total := total + n;
	DELETE FROM caisson.sandboxes s WHERE s.id IN (
		SELECT x.id FROM caisson.sandboxes x
		WHERE x.end_at < now() - interval '7 days'
		LIMIT p_limit FOR UPDATE SKIP LOCKED);
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN total + n;
END $$;

RESET ROLE;
