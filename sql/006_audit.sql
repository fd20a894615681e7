-- SPDX-License-Identifier: Apache-2.0
--
-- Audit: who did what, or was refused, as one hash chain per tenant.
--
-- A row is written in the action's own transaction by a trigger (or, for what
-- was refused and so has no transaction, by audit_refused()). It is chained
-- afterwards, in the order of commits, by the controller; until then n is NULL.
-- Application roles can neither change nor delete a row; the format of the
-- hash is in doc/audit.md.

SET LOCAL ROLE caisson_owner;

CREATE TABLE caisson.audit (
	seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	xid        xid8 NOT NULL DEFAULT pg_current_xact_id(),
	tenant     text NOT NULL, -- '' for what belongs to no tenant
	project    text,
	time       timestamptz NOT NULL DEFAULT clock_timestamp(),
	actor      text NOT NULL,
	actor_name text,
	action     text NOT NULL, -- sandbox.create
	target     text,
	request    text,
	trace      text,
	outcome    text NOT NULL CHECK (outcome IN ('done', 'refused')),
	code       text,  -- of the refusal
	detail     text,
	-- the chain: filled together, once
	n          bigint,
	prev       bytea,
	hash       bytea,
	CHECK ((n IS NULL) = (hash IS NULL) AND (n IS NULL) = (prev IS NULL))
);
CREATE UNIQUE INDEX ON caisson.audit (tenant, n) WHERE n IS NOT NULL;
CREATE INDEX ON caisson.audit (xid, seq) WHERE n IS NULL;
CREATE INDEX ON caisson.audit (tenant, seq);
CREATE INDEX ON caisson.audit (time);

CREATE TABLE caisson.audit_heads (
	tenant     text PRIMARY KEY,
	n          bigint NOT NULL,
	hash       bytea NOT NULL,
	time       timestamptz NOT NULL,
	-- the last one that retention removed: where the kept chain begins
	floor_n    bigint NOT NULL DEFAULT 0,
	floor_hash bytea NOT NULL DEFAULT decode(repeat('00', 32), 'hex'),
	-- up to where the rolling check has come
	checked_n  bigint NOT NULL DEFAULT 0,
	broken_n   bigint
);

-- What is hashed: every field as length ':' bytes ',' ; NULL as '-,'.
CREATE FUNCTION caisson.audit_field(p text) RETURNS bytea
LANGUAGE sql IMMUTABLE AS $$
	SELECT convert_to(CASE WHEN p IS NULL THEN '-,' ELSE
		octet_length(convert_to(p, 'UTF8')) || ':' || p || ',' END,
		'UTF8')
$$;
CREATE FUNCTION caisson.audit_hash(a caisson.audit, p_n bigint, p_prev bytea)
RETURNS bytea
LANGUAGE sql STABLE AS $$
	SELECT sha256(p_prev
		|| caisson.audit_field(p_n::text)
		|| caisson.audit_field(a.tenant)
		|| caisson.audit_field(a.project)
		|| caisson.audit_field(caisson.ts(a.time))
		|| caisson.audit_field(a.actor)
		|| caisson.audit_field(a.actor_name)
		|| caisson.audit_field(a.action)
		|| caisson.audit_field(a.target)
		|| caisson.audit_field(a.request)
		|| caisson.audit_field(a.trace)
		|| caisson.audit_field(a.outcome)
		|| caisson.audit_field(a.code)
		|| caisson.audit_field(a.detail))
$$;

-- Rows are as they were written; only the chain is added, once.
CREATE FUNCTION caisson.audit_guard() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
	IF OLD.n IS NOT NULL OR (to_jsonb(NEW) - 'n' - 'prev' - 'hash')
		IS DISTINCT FROM (to_jsonb(OLD) - 'n' - 'prev' - 'hash') THEN
		RAISE EXCEPTION 'audit rows do not change';
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER guard BEFORE UPDATE ON caisson.audit
	FOR EACH ROW EXECUTE FUNCTION caisson.audit_guard();

-- One bounded line: control characters and what follows 1000 characters do
-- not get in.
CREATE FUNCTION caisson.audit_words(p text) RETURNS text
LANGUAGE sql IMMUTABLE AS $$
	SELECT left(regexp_replace(p,
		'[\x01-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]',
		'?', 'g'), 1000)
$$;

CREATE FUNCTION caisson.audit_add(p_tenant text, p_project text,
	p_action text, p_target text, p_by text, p_detail text)
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	INSERT INTO caisson.audit (tenant, project, actor, actor_name, action,
		target, request, trace, outcome, detail)
	VALUES (p_tenant, p_project, coalesce(caisson.acting_as('actor'),
			p_by, session_user::text),
		caisson.audit_words(caisson.acting_as('actor_name')),
		p_action, caisson.audit_words(p_target),
		caisson.acting_as('request'), caisson.acting_as('trace'),
		'done', caisson.audit_words(p_detail))
$$;
REVOKE ALL ON FUNCTION caisson.audit_add FROM PUBLIC;
GRANT EXECUTE ON FUNCTION caisson.audit_add
	TO caisson_api, caisson_controller;

-- One trigger for every table of which changes are audited:
-- audit_change('key', 'id', 'role,name'): the word of the action, the column
-- that names the target, the columns that go into the detail.
CREATE FUNCTION caisson.audit_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	v jsonb;
	was jsonb := '{}';
	v_verb text;
	v_detail text;
BEGIN
	v := to_jsonb(CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END);
	IF TG_OP = 'UPDATE' THEN
		was := to_jsonb(OLD);
	END IF;
	v_verb := CASE
		WHEN TG_OP = 'INSERT' THEN 'create'
		WHEN TG_OP = 'DELETE' THEN 'delete'
		WHEN v ->> 'revoked_at' IS NOT NULL
			AND was ->> 'revoked_at' IS NULL THEN 'revoke'
		WHEN v ->> 'deleted_at' IS NOT NULL
			AND was ->> 'deleted_at' IS NULL THEN 'delete'
		WHEN v ->> 'desired' IS DISTINCT FROM was ->> 'desired' THEN
			CASE v ->> 'desired' WHEN 'deleted' THEN 'end'
			WHEN 'paused' THEN 'pause' WHEN 'suspended' THEN
			'suspend' ELSE 'resume' END
		ELSE 'update' END;
	SELECT string_agg(c || '=' || coalesce(v ->> c, 'null'), ' '
			ORDER BY c) INTO v_detail
		FROM unnest(string_to_array(TG_ARGV[2], ',')) AS c
		WHERE v ? c AND (TG_OP <> 'UPDATE'
			OR v -> c IS DISTINCT FROM was -> c);
	PERFORM caisson.audit_add(coalesce(v ->> 'tenant', CASE TG_ARGV[0]
			WHEN 'tenant' THEN v ->> 'id' ELSE '' END),
		v ->> 'project', TG_ARGV[0] || '.' || v_verb,
		v ->> TG_ARGV[1], CASE TG_OP WHEN 'INSERT' THEN
			v ->> 'created_by' END, v_detail);
	RETURN NULL;
END $$;

CREATE TRIGGER audit_insert AFTER INSERT ON caisson.sandboxes
	FOR EACH ROW EXECUTE FUNCTION caisson.audit_change('sandbox', 'id',
		'name,release,vcpus,memory_mib,disk_mib,ttl_s');
CREATE TRIGGER audit_update AFTER UPDATE ON caisson.sandboxes
	FOR EACH ROW WHEN ((OLD.desired, OLD.labels, OLD.name, OLD.ttl_s)
		IS DISTINCT FROM (NEW.desired, NEW.labels, NEW.name,
		NEW.ttl_s) AND (OLD.observed = NEW.observed))
	EXECUTE FUNCTION caisson.audit_change('sandbox', 'id',
		'desired,labels,name,ttl_s');
CREATE TRIGGER audit_insert AFTER INSERT ON caisson.api_keys
	FOR EACH ROW EXECUTE FUNCTION caisson.audit_change('key', 'id',
		'name,role,prefix');
CREATE TRIGGER audit_update AFTER UPDATE ON caisson.api_keys
	FOR EACH ROW WHEN ((OLD.revoked_at, OLD.role, OLD.name)
		IS DISTINCT FROM (NEW.revoked_at, NEW.role, NEW.name))
	EXECUTE FUNCTION caisson.audit_change('key', 'id', 'name,role');
CREATE TRIGGER audit_insert AFTER INSERT ON caisson.template_releases
	FOR EACH ROW EXECUTE FUNCTION caisson.audit_change('release', 'digest',
		'template,public');
CREATE TRIGGER audit_change AFTER INSERT OR DELETE ON caisson.templates
	FOR EACH ROW EXECUTE FUNCTION caisson.audit_change('template', 'name',
		'public');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE ON caisson.tags
	FOR EACH ROW EXECUTE FUNCTION caisson.audit_change('tag', 'template',
		'tag,release');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE
	ON caisson.projects
	FOR EACH ROW EXECUTE FUNCTION caisson.audit_change('project', 'id',
		'name');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE
	ON caisson.tenants
	FOR EACH ROW EXECUTE FUNCTION caisson.audit_change('tenant', 'id',
		'name');
CREATE TRIGGER audit_update AFTER UPDATE ON caisson.nodes
	FOR EACH ROW WHEN (OLD.state <> NEW.state)
	EXECUTE FUNCTION caisson.audit_change('node', 'name', 'state');

CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE ON caisson.quotas
	FOR EACH ROW EXECUTE FUNCTION caisson.audit_change('quota', 'project',
		'sandboxes,vcpus,memory_mib,disk_mib');

-- Refused requests, in a batch from an API process: an array of {time, tenant,
-- project, actor, actor_name, action, target, request, trace, code, detail}.
CREATE FUNCTION caisson.audit_refused(p_rows jsonb) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	n integer;
BEGIN
	INSERT INTO caisson.audit (tenant, project, time, actor, actor_name,
		action, target, request, trace, outcome, code, detail)
	SELECT coalesce(r.tenant, ''), r.project, coalesce(r.time, now()),
		coalesce(r.actor, 'nobody'),
		caisson.audit_words(r.actor_name),
		caisson.audit_words(r.action), caisson.audit_words(r.target),
		r.request, r.trace, 'refused', r.code,
		caisson.audit_words(r.detail)
	FROM jsonb_to_recordset(p_rows) AS r(time timestamptz, tenant text,
		project text, actor text, actor_name text, action text,
		target text, request text, trace text, code text, detail text)
	LIMIT 1000;
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN n;
END $$;
REVOKE ALL ON FUNCTION caisson.audit_refused FROM PUBLIC;
GRANT EXECUTE ON FUNCTION caisson.audit_refused TO caisson_api;

-- Chain what has been committed, in that order. One at a time; -1: another
-- controller does it now. Returns how many.
CREATE FUNCTION caisson.audit_chain(p_limit integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	a caisson.audit;
	h caisson.audit_heads;
	v_hash bytea;
	v_count integer := 0;
BEGIN
	IF NOT pg_try_advisory_xact_lock(1128352084) THEN
		RETURN -1;
	END IF;
	FOR a IN SELECT * FROM caisson.audit x
		WHERE x.n IS NULL
		  AND x.xid < pg_snapshot_xmin(pg_current_snapshot())
		ORDER BY x.xid, x.seq LIMIT p_limit
	LOOP
		SELECT * INTO h FROM caisson.audit_heads x
			WHERE x.tenant = a.tenant FOR UPDATE;
		IF NOT FOUND THEN
			INSERT INTO caisson.audit_heads (tenant, n, hash, time)
			VALUES (a.tenant, 0, decode(repeat('00', 32), 'hex'),
				now()) RETURNING * INTO h;
		END IF;
		v_hash := caisson.audit_hash(a, h.n + 1, h.hash);
		UPDATE caisson.audit x
			SET n = h.n + 1, prev = h.hash, hash = v_hash
			WHERE x.seq = a.seq;
		UPDATE caisson.audit_heads x
			SET n = h.n + 1, hash = v_hash, time = now()
			WHERE x.tenant = a.tenant;
		v_count := v_count + 1;
	END LOOP;
	RETURN v_count;
END $$;

-- The first number in (p_after, p_after + p_limit] whose record is missing or
-- does not carry the hash that its content and its predecessor give; NULL if
-- all are sound. checked: how far it looked.
CREATE FUNCTION caisson.audit_verify(p_tenant text, p_after bigint,
	p_limit integer)
RETURNS TABLE (broken bigint, checked bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp
AS $$
DECLARE
	h caisson.audit_heads;
	a caisson.audit;
	v_prev bytea;
	v_at bigint;
BEGIN
	SELECT * INTO h FROM caisson.audit_heads x WHERE x.tenant = p_tenant;
	v_at := greatest(p_after, h.floor_n);
	v_prev := CASE WHEN v_at = h.floor_n THEN h.floor_hash ELSE
		(SELECT x.hash FROM caisson.audit x
			WHERE x.tenant = p_tenant AND x.n = v_at) END;
	WHILE v_at < least(h.n, p_after + p_limit) LOOP
		SELECT * INTO a FROM caisson.audit x
			WHERE x.tenant = p_tenant AND x.n = v_at + 1;
		IF NOT FOUND OR v_prev IS NULL OR a.prev <> v_prev
			OR a.hash <> caisson.audit_hash(a, v_at + 1, v_prev)
		THEN
			RETURN QUERY SELECT v_at + 1, v_at;
			RETURN;
		END IF;
		v_prev := a.hash;
		v_at := v_at + 1;
	END LOOP;
	IF v_at = h.n AND v_prev IS DISTINCT FROM h.hash THEN
		RETURN QUERY SELECT h.n, v_at;
		RETURN;
	END IF;
	RETURN QUERY SELECT NULL::bigint, v_at;
END $$;

-- The rolling check: the next p_limit records of every chain, from the start
-- again after the end. A break is said once, as event audit.broken.
CREATE FUNCTION caisson.audit_check(p_limit integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	h caisson.audit_heads;
	v record;
	v_broken integer := 0;
BEGIN
	FOR h IN SELECT * FROM caisson.audit_heads x FOR UPDATE SKIP LOCKED
	LOOP
		SELECT * INTO v FROM caisson.audit_verify(h.tenant,
			CASE WHEN h.checked_n >= h.n THEN h.floor_n
				ELSE h.checked_n END, p_limit);
		IF v.broken IS NOT NULL THEN
			v_broken := v_broken + 1;
		END IF;
		IF v.broken IS NOT NULL AND h.broken_n IS DISTINCT FROM v.broken
		THEN
			PERFORM caisson.event_add(h.tenant, NULL,
				'audit.broken', NULL, NULL, 'controller', NULL,
				jsonb_build_object('n', v.broken,
					'head', h.n));
		END IF;
		UPDATE caisson.audit_heads x
			SET broken_n = coalesce(v.broken, x.broken_n),
			    checked_n = CASE WHEN v.broken IS NULL
				THEN v.checked ELSE 0 END
			WHERE x.tenant = h.tenant;
	END LOOP;
	RETURN v_broken;
END $$;

-- Retention: chained records older than p_days go, from the oldest; the hash
-- of the last one stays as the new beginning.
CREATE FUNCTION caisson.audit_gc(p_days integer, p_limit integer)
RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	h caisson.audit_heads;
	a caisson.audit;
	n integer := 0;
BEGIN
	FOR h IN SELECT * FROM caisson.audit_heads x FOR UPDATE SKIP LOCKED
	LOOP
		FOR a IN SELECT * FROM caisson.audit x
			WHERE x.tenant = h.tenant AND x.n > h.floor_n
			  AND x.n < h.n
			ORDER BY x.n LIMIT p_limit
		LOOP
			EXIT WHEN a.time >= now() - p_days * interval '1 day';
			DELETE FROM caisson.audit x WHERE x.seq = a.seq;
			UPDATE caisson.audit_heads x
				SET floor_n = a.n, floor_hash = a.hash
				WHERE x.tenant = h.tenant;
			n := n + 1;
		END LOOP;
	END LOOP;
	RETURN n;
END $$;

CREATE FUNCTION caisson.audit_json(a caisson.audit) RETURNS json
LANGUAGE sql STABLE AS $$
	SELECT json_build_object('n', a.n, 'tenant', a.tenant,
		'project', a.project, 'time', caisson.ts(a.time),
		'actor', a.actor, 'actor_name', a.actor_name,
		'action', a.action, 'target', a.target,
		'request', a.request, 'trace', a.trace,
		'outcome', a.outcome, 'code', a.code, 'detail', a.detail,
		'prev', encode(a.prev, 'hex'), 'hash', encode(a.hash, 'hex'))
$$;

-- Chained records, newest first, or in order of the chain (p_oldest, for
-- export) after number p_after. p_cluster: the chain of the cluster instead.
CREATE FUNCTION caisson.audit_list(p_tenant text, p_cluster boolean,
	p_after bigint, p_limit integer, p_oldest boolean, p_actor text,
	p_action text, p_target text, p_outcome text)
RETURNS TABLE (seq bigint, item json)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	v_tenant text := CASE WHEN p_cluster THEN '' ELSE p_tenant END;
BEGIN
	PERFORM caisson.scope(p_tenant);
	IF p_oldest THEN
		RETURN QUERY SELECT a.n, caisson.audit_json(a)
			FROM caisson.audit a
			WHERE a.tenant = v_tenant
			  AND a.n > coalesce(p_after, 0)
			  AND (p_actor IS NULL OR a.actor = p_actor)
			  AND (p_action IS NULL OR a.action = p_action)
			  AND (p_target IS NULL OR a.target = p_target)
			  AND (p_outcome IS NULL OR a.outcome = p_outcome)
			ORDER BY a.n LIMIT p_limit;
		RETURN;
	END IF;
	RETURN QUERY SELECT a.n, caisson.audit_json(a)
		FROM caisson.audit a
		WHERE a.tenant = v_tenant AND a.n IS NOT NULL
		  AND (p_after IS NULL OR a.n < p_after)
		  AND (p_actor IS NULL OR a.actor = p_actor)
		  AND (p_action IS NULL OR a.action = p_action)
		  AND (p_target IS NULL OR a.target = p_target)
		  AND (p_outcome IS NULL OR a.outcome = p_outcome)
		ORDER BY a.n DESC LIMIT p_limit;
END $$;

CREATE FUNCTION caisson.audit_head(p_tenant text, p_cluster boolean)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
	v_tenant text := CASE WHEN p_cluster THEN '' ELSE p_tenant END;
	h caisson.audit_heads;
BEGIN
	PERFORM caisson.scope(p_tenant);
	SELECT * INTO h FROM caisson.audit_heads x WHERE x.tenant = v_tenant;
	RETURN json_build_object('tenant', v_tenant,
		'n', coalesce(h.n, 0),
		'hash', coalesce(encode(h.hash, 'hex'), repeat('00', 32)),
		'time', caisson.ts(h.time),
		'floor', json_build_object('n', coalesce(h.floor_n, 0),
			'hash', coalesce(encode(h.floor_hash, 'hex'),
				repeat('00', 32))),
		'broken', h.broken_n,
		'pending', (SELECT count(*) FROM caisson.audit a
			WHERE a.tenant = v_tenant AND a.n IS NULL));
END $$;

ALTER TABLE caisson.audit ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.audit_heads ENABLE ROW LEVEL SECURITY;
CREATE POLICY api ON caisson.audit FOR SELECT TO caisson_api
	USING (tenant IN (current_setting('caisson.tenant', true), ''));
CREATE POLICY api ON caisson.audit_heads FOR SELECT TO caisson_api
	USING (tenant IN (current_setting('caisson.tenant', true), ''));
GRANT SELECT ON caisson.audit, caisson.audit_heads TO caisson_api;

RESET ROLE;
